// The contract that is compiled in, held against the one that clients were promised:
// luna_v1.textproto beside this file. What is added since is allowed; tests/proto/promise.sh writes
// the file anew, so that it is held to as well.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "luna/v1/admin.pb.h"
#include "luna/v1/inference.pb.h"
#include "luna/v1/monitor.pb.h"
#include "luna/v1/session.pb.h"
#include "luna/v1/types.pb.h"
#include "tests/proto/differences.h"

namespace luna::proto {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kPromised[] = "tests/proto/luna_v1.textproto";
constexpr char kHowToUpdate[] =
    "clients out there rely on this: put it back. Where nobody can have it yet, run "
    "tests/proto/promise.sh and commit the luna_v1.textproto that it writes";

FileDescriptorSet Promised() {
  FileDescriptorSet files;
  const int file = open(kPromised, O_RDONLY | O_CLOEXEC);
  EXPECT_GE(file, 0) << kPromised;
  google::protobuf::io::FileInputStream input(file);
  EXPECT_TRUE(google::protobuf::TextFormat::Parse(&input, &files)) << kPromised;
  input.Close();
  return files;
}

FileDescriptorSet CompiledIn() {
  FileDescriptorSet files;
  for (const google::protobuf::Descriptor* any :
       {v1::SamplingParams::descriptor(), v1::GenerateRequest::descriptor(),
        v1::Session::descriptor(), v1::PoolMemory::descriptor(), v1::DrainRequest::descriptor()}) {
    any->file()->CopyTo(files.add_file());
  }
  return files;
}

TEST(ContractTest, EverythingThatWasPromisedIsThere) {
  const FileDescriptorSet promised = Promised();
  ASSERT_EQ(promised.file_size(), 5);
  EXPECT_THAT(BrokenPromises(promised, CompiledIn()), IsEmpty()) << kHowToUpdate;
}

TEST(ContractTest, ZeroIsUnspecifiedInEveryEnum) {
  EXPECT_THAT(EnumsWithoutUnspecified(CompiledIn()), IsEmpty());
}

template <typename Things>
auto* Named(Things* things, const std::string& name) {
  for (auto& thing : *things) {
    if (thing.name() == name) return &thing;
  }
  ADD_FAILURE() << name;
  return &*things->begin();
}

// The differences that `change` makes.
std::vector<std::string> After(const std::string& file,
                               const std::function<void(FileDescriptorProto&)>& change) {
  FileDescriptorSet now = Promised();
  change(*Named(now.mutable_file(), "luna/v1/" + file));
  return BrokenPromises(Promised(), now);
}

std::vector<std::string> AfterChangeOfUsage(const std::function<void(DescriptorProto&)>& change) {
  return After("types.proto", [&](FileDescriptorProto& file) {
    change(*Named(file.mutable_message_type(), "Usage"));
  });
}

TEST(ContractTest, EveryKindOfBreakIsSeen) {
  const auto cached = [](DescriptorProto& usage) -> FieldDescriptorProto& {
    return *Named(usage.mutable_field(), "cached_tokens");
  };
  const auto expect_field_2 = [&](const std::function<void(FieldDescriptorProto&)>& change) {
    EXPECT_THAT(AfterChangeOfUsage([&](DescriptorProto& usage) { change(cached(usage)); }),
                ElementsAre(HasSubstr("luna.v1.Usage field 2")));
  };
  expect_field_2([](FieldDescriptorProto& field) { field.set_name("cached"); });
  expect_field_2([](FieldDescriptorProto& field) { field.set_number(99); });
  expect_field_2([](auto& field) { field.set_type(FieldDescriptorProto::TYPE_UINT64); });
  expect_field_2([](auto& field) { field.set_label(FieldDescriptorProto::LABEL_REPEATED); });
  expect_field_2([](auto& field) { field.set_proto3_optional(true); });
  EXPECT_THAT(AfterChangeOfUsage([](auto& usage) { usage.mutable_field()->DeleteSubrange(1, 1); }),
              ElementsAre(HasSubstr("is gone")));
  EXPECT_THAT(After("types.proto",
                    [](FileDescriptorProto& file) {
                      Named(file.mutable_enum_type(), "Role")->mutable_value(2)->set_number(9);
                    }),
              ElementsAre(HasSubstr("enum luna.v1.Role 2")));
  EXPECT_THAT(After("inference.proto",
                    [](FileDescriptorProto& file) {
                      file.mutable_service(0)->mutable_method(0)->set_server_streaming(false);
                    }),
              ElementsAre(HasSubstr("InferenceService/Generate")));
  EXPECT_THAT(After("inference.proto",
                    [](FileDescriptorProto& file) {
                      file.mutable_service(0)->mutable_method()->DeleteSubrange(2, 1);
                    }),
              ElementsAre(HasSubstr("InferenceService/Abort")));
  EXPECT_THAT(After("inference.proto",
                    [](FileDescriptorProto& file) {
                      Named(file.mutable_message_type(), "GenerateRequest")
                          ->mutable_oneof_decl(0)
                          ->set_name("prompt");
                    }),
              testing::SizeIs(3));
}

TEST(ContractTest, AnAdditionBreaksNothing) {
  EXPECT_THAT(AfterChangeOfUsage([](DescriptorProto& usage) {
                FieldDescriptorProto* field = usage.add_field();
                field->set_name("novelty");
                field->set_number(99);
                field->set_type(FieldDescriptorProto::TYPE_BOOL);
              }),
              IsEmpty());
  EXPECT_THAT(After("admin.proto",
                    [](FileDescriptorProto& file) {
                      file.mutable_service(0)->add_method()->set_name("Novelty");
                      file.add_enum_type()->add_value()->set_name("NOVELTY");
                    }),
              IsEmpty());
}

TEST(ContractTest, AnEnumWithoutUnspecifiedIsSeen) {
  FileDescriptorSet files;
  FileDescriptorProto* file = files.add_file();
  file->set_package("p");
  google::protobuf::EnumDescriptorProto* type = file->add_message_type()->add_enum_type();
  file->mutable_message_type(0)->set_name("M");
  type->set_name("E");
  type->add_value()->set_name("E_FIRST");
  type->mutable_value(0)->set_number(0);
  EXPECT_THAT(EnumsWithoutUnspecified(files), ElementsAre("p.M.E"));
  type->mutable_value(0)->set_name("E_UNSPECIFIED");
  EXPECT_THAT(EnumsWithoutUnspecified(files), IsEmpty());
}

}  // namespace
}  // namespace luna::proto
