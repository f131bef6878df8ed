#include "tests/integration/wild_messages.h"

#include <google/protobuf/descriptor.pb.h>

#include <limits>
#include <memory>
#include <string_view>

#include "core/base/check.h"
#include "luna/v1/admin.pb.h"
#include "luna/v1/inference.pb.h"
#include "luna/v1/monitor.pb.h"
#include "luna/v1/session.pb.h"

namespace luna::integration {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::FieldDescriptorProto;

void StringsToBytes(DescriptorProto& message) {
  for (FieldDescriptorProto& field : *message.mutable_field()) {
    if (field.type() == FieldDescriptorProto::TYPE_STRING) {
      field.set_type(FieldDescriptorProto::TYPE_BYTES);
    }
  }
  for (DescriptorProto& nested : *message.mutable_nested_type()) StringsToBytes(nested);
}

}  // namespace

WildContract::WildContract() {
  for (const auto* any : {v1::GenerateRequest::descriptor(), v1::Session::descriptor(),
                          v1::PoolMemory::descriptor(), v1::DrainRequest::descriptor()}) {
    Add(any->file());
  }
}

void WildContract::Add(const google::protobuf::FileDescriptor* file) {
  if (pool_.FindFileByName(file->name()) != nullptr) return;
  for (int i = 0; i < file->dependency_count(); ++i) Add(file->dependency(i));
  google::protobuf::FileDescriptorProto wild;
  file->CopyTo(&wild);
  for (DescriptorProto& message : *wild.mutable_message_type()) StringsToBytes(message);
  LUNA_CHECK(pool_.BuildFile(wild) != nullptr) << file->name();
}

void WildMessages::Remember(const std::string& field, const std::string& value) {
  known_[field].push_back(value);
}

std::string WildMessages::Next(const std::string& message) {
  const google::protobuf::Descriptor* type = contract_->Find(message);
  LUNA_CHECK(type != nullptr) << message;
  static constexpr int kOdds[] = {3, 20, 1'000};
  odds_ = AnyOf(kOdds);
  const std::unique_ptr<Message> wild(factory_.GetPrototype(type)->New());
  Fill(*wild, 0);
  std::string bytes = wild->SerializeAsString();
  // Not a message at all, or one of a later version.
  if (OneIn(40)) bytes += Bytes("");
  if (OneIn(40)) bytes.resize(bytes.size() / 2);
  return bytes;
}

void WildMessages::Fill(Message& message, int depth) {
  const google::protobuf::Descriptor* type = message.GetDescriptor();
  for (int i = 0; i < type->real_oneof_decl_count(); ++i) {
    const google::protobuf::OneofDescriptor* choice = type->oneof_decl(i);
    if (!Odd()) SetOrAdd(message, choice->field(random_() % choice->field_count()), depth);
  }
  for (int i = 0; i < type->field_count(); ++i) {
    const Field* field = type->field(i);
    if (field->real_containing_oneof() != nullptr) continue;
    const bool identity = field->name() == "session_id" || field->name() == "generation_id";
    if (!identity && !OneIn(field->is_repeated() ? 2 : 4)) continue;
    for (int n = CountOf(field); n > 0; --n) SetOrAdd(message, field, depth);
  }
}

int WildMessages::CountOf(const Field* field) {
  static constexpr int kCounts[] = {0, 1, 1, 2, 3, 17};
  static constexpr int kHugeCounts[] = {1'000, 3'000, 200'000};
  if (!field->is_repeated()) return 1;
  return OneIn(4) && Odd() ? AnyOf(kHugeCounts) : AnyOf(kCounts);
}

void WildMessages::SetOrAdd(Message& message, const Field* field, int depth) {
  const google::protobuf::Reflection* at = message.GetReflection();
  const auto put = [&](auto add, auto set, auto value) {
    field->is_repeated() ? (at->*add)(&message, field, value) : (at->*set)(&message, field, value);
  };
  using Reflection = google::protobuf::Reflection;
  switch (field->cpp_type()) {
    case Field::CPPTYPE_INT32:
      return put(&Reflection::AddInt32, &Reflection::SetInt32, static_cast<int32_t>(Whole()));
    case Field::CPPTYPE_INT64:
      return put(&Reflection::AddInt64, &Reflection::SetInt64, static_cast<int64_t>(Whole()));
    case Field::CPPTYPE_UINT32:
      return put(&Reflection::AddUInt32, &Reflection::SetUInt32, static_cast<uint32_t>(Whole()));
    case Field::CPPTYPE_UINT64:
      return put(&Reflection::AddUInt64, &Reflection::SetUInt64, Whole());
    case Field::CPPTYPE_FLOAT:
      return put(&Reflection::AddFloat, &Reflection::SetFloat, static_cast<float>(Real()));
    case Field::CPPTYPE_DOUBLE:
      return put(&Reflection::AddDouble, &Reflection::SetDouble, Real());
    case Field::CPPTYPE_BOOL:
      return put(&Reflection::AddBool, &Reflection::SetBool, OneIn(2));
    case Field::CPPTYPE_ENUM:
      return put(&Reflection::AddEnumValue, &Reflection::SetEnumValue,
                 static_cast<int>(Odd() ? Whole() : random_() % 4));
    case Field::CPPTYPE_STRING:
      return put(&Reflection::AddString, &Reflection::SetString, Bytes(field->name()));
    case Field::CPPTYPE_MESSAGE:
      return Fill(field->is_repeated() ? *at->AddMessage(&message, field)
                                       : *at->MutableMessage(&message, field),
                  depth + 1);
  }
}

uint64_t WildMessages::Whole() {
  static constexpr uint64_t kSmall[] = {0, 1, 1, 1, 1, 2, 20};
  static constexpr uint64_t kOdd[] = {21,
                                      63,
                                      318,
                                      320,
                                      65'536,
                                      0x7FFFFFFF,
                                      0x80000000,
                                      0xFFFFFFFF,
                                      0x7FFFFFFFFFFFFFFF,
                                      0x8000000000000000,
                                      0xFFFFFFFFFFFFFFFF};
  return Odd() ? AnyOf(kOdd) : AnyOf(kSmall);
}

double WildMessages::Real() {
  using Limits = std::numeric_limits<float>;
  static constexpr double kTame[] = {0.0, -0.0, 0.5, 0.9, 1.0};
  static constexpr double kOdd[] = {1e-45,
                                    1e30,
                                    -1.0,
                                    2.0,
                                    -2.5,
                                    100.0,
                                    -100.0,
                                    Limits::max(),
                                    Limits::lowest(),
                                    Limits::denorm_min(),
                                    Limits::infinity(),
                                    -Limits::infinity(),
                                    Limits::quiet_NaN()};
  return Odd() ? AnyOf(kOdd) : AnyOf(kTame);
}

std::string WildMessages::Bytes(const std::string& field) {
  if (const std::vector<std::string>& known = known_[field]; !known.empty() && !Odd()) {
    if (field == "session_id" && OneIn(2)) return "";  // a one-off
    return known[random_() % known.size()];
  }
  using std::string_view_literals::operator""sv;
  static constexpr std::string_view kText[] = {"",  "a",          "Once upon a time", "옛날 옛적에",
                                               "🐰", "<|im_end|>", "\0a\0"sv,          "\n\t\x7F"};
  static constexpr std::string_view kNoText[] = {"\xFF\xFE", "\xC3", "\xED\xA0\x80", "a\x80\x80z",
                                                 "\xF8\x88\x80\x80\x80"};
  if (OneIn(4) && Odd()) return std::string(AnyOf(kNoText));
  if (OneIn(4) && Odd()) return std::string(random_() % 300'000, 'x');
  if (Odd()) return std::string(random_() % 300, static_cast<char>('a' + random_() % 26));
  return std::string(AnyOf(kText));
}

}  // namespace luna::integration
