#include "tests/proto/differences.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace luna::proto {
namespace {

namespace pb = google::protobuf;

// What is promised of one thing, by its path: "luna.v1.Usage field 3" -> "name=…, type=…".
using Promises = std::map<std::string, std::string>;

void AddField(const std::string& message, const pb::DescriptorProto& of,
              const pb::FieldDescriptorProto& field, Promises& out) {
  // A proto3 `optional` is a oneof of its own, whose index moves when others are added.
  std::string where = field.proto3_optional() ? "optional" : "";
  if (field.has_oneof_index() && !field.proto3_optional()) {
    where = absl::StrCat("oneof ", of.oneof_decl(field.oneof_index()).name());
  }
  out[absl::StrCat(message, " field ", field.number())] = absl::StrCat(
      field.name(), ": ", pb::FieldDescriptorProto::Label_Name(field.label()), " ",
      pb::FieldDescriptorProto::Type_Name(field.type()), " ", field.type_name(), " ", where);
}

void AddEnum(const std::string& scope, const pb::EnumDescriptorProto& type, Promises& out) {
  for (const pb::EnumValueDescriptorProto& value : type.value()) {
    out[absl::StrCat("enum ", scope, ".", type.name(), " ", value.number())] = value.name();
  }
}

void AddMessage(const std::string& scope, const pb::DescriptorProto& message, Promises& out) {
  const std::string name = absl::StrCat(scope, ".", message.name());
  out[absl::StrCat("message ", name)] = "";
  for (const pb::FieldDescriptorProto& field : message.field()) {
    AddField(name, message, field, out);
  }
  for (const pb::EnumDescriptorProto& type : message.enum_type()) AddEnum(name, type, out);
  for (const pb::DescriptorProto& nested : message.nested_type()) AddMessage(name, nested, out);
}

void AddService(const std::string& scope, const pb::ServiceDescriptorProto& service,
                Promises& out) {
  for (const pb::MethodDescriptorProto& method : service.method()) {
    out[absl::StrCat("rpc ", scope, ".", service.name(), "/", method.name())] =
        absl::StrCat(method.client_streaming() ? "stream " : "", method.input_type(), " -> ",
                     method.server_streaming() ? "stream " : "", method.output_type());
  }
}

Promises PromisesOf(const pb::FileDescriptorSet& files) {
  Promises out;
  for (const pb::FileDescriptorProto& file : files.file()) {
    for (const pb::DescriptorProto& message : file.message_type()) {
      AddMessage(file.package(), message, out);
    }
    for (const pb::EnumDescriptorProto& type : file.enum_type()) {
      AddEnum(file.package(), type, out);
    }
    for (const pb::ServiceDescriptorProto& service : file.service()) {
      AddService(file.package(), service, out);
    }
  }
  return out;
}

void CheckEnum(const std::string& scope, const pb::EnumDescriptorProto& type,
               std::vector<std::string>& out) {
  for (const pb::EnumValueDescriptorProto& value : type.value()) {
    if (value.number() == 0 && absl::EndsWith(value.name(), "_UNSPECIFIED")) return;
  }
  out.push_back(absl::StrCat(scope, ".", type.name()));
}

void CheckEnumsOf(const std::string& scope, const pb::DescriptorProto& message,
                  std::vector<std::string>& out) {
  const std::string name = absl::StrCat(scope, ".", message.name());
  for (const pb::EnumDescriptorProto& type : message.enum_type()) CheckEnum(name, type, out);
  for (const pb::DescriptorProto& nested : message.nested_type()) CheckEnumsOf(name, nested, out);
}

}  // namespace

std::vector<std::string> BrokenPromises(const pb::FileDescriptorSet& promised,
                                        const pb::FileDescriptorSet& now) {
  const Promises kept = PromisesOf(now);
  std::vector<std::string> broken;
  for (const auto& [what, how] : PromisesOf(promised)) {
    const auto it = kept.find(what);
    if (it == kept.end()) {
      broken.push_back(absl::StrCat(what, " (", how, ") is gone"));
    } else if (it->second != how) {
      broken.push_back(absl::StrCat(what, " was (", how, "), is (", it->second, ")"));
    }
  }
  return broken;
}

std::vector<std::string> EnumsWithoutUnspecified(const pb::FileDescriptorSet& files) {
  std::vector<std::string> out;
  for (const pb::FileDescriptorProto& file : files.file()) {
    for (const pb::EnumDescriptorProto& type : file.enum_type()) {
      CheckEnum(file.package(), type, out);
    }
    for (const pb::DescriptorProto& message : file.message_type()) {
      CheckEnumsOf(file.package(), message, out);
    }
  }
  return out;
}

}  // namespace luna::proto
