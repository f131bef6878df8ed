// How LoadModel finds what a path means.
#include "core/model/model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/model_files.h"

namespace luna::model {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& path, absl::StatusCode code) {
  const auto model = LoadModel(path);
  EXPECT_EQ(model.status().code(), code) << model.status();
  return std::string(model.status().message());
}

TEST(LoadModelTest, NothingThere) {
  TempDir dir;
  EXPECT_THAT(ErrorOf(dir.path() + "/absent", absl::StatusCode::kNotFound),
              HasSubstr("absent: there is no such file or directory"));
  EXPECT_THAT(ErrorOf("", absl::StatusCode::kNotFound), HasSubstr("no such file"));
}

TEST(LoadModelTest, DirectoryWithOneGgufIsThatFile) {
  TempDir dir;
  dir.Write("notes.txt", "x");
  const std::string path = dir.Write("a.gguf", "not one");
  EXPECT_THAT(ErrorOf(dir.path(), absl::StatusCode::kInvalidArgument),
              HasSubstr("a.gguf: is not a GGUF file"));
  EXPECT_THAT(ErrorOf(path, absl::StatusCode::kInvalidArgument), HasSubstr("is not a GGUF file"));
  dir.Write("b.gguf", "another");
  EXPECT_THAT(ErrorOf(dir.path(), absl::StatusCode::kInvalidArgument),
              HasSubstr("holds 2 .gguf files; name one of them"));
}

TEST(LoadModelTest, FilesThatAreNone) {
  TempDir dir;
  EXPECT_THAT(ErrorOf(dir.Write("empty.gguf", ""), absl::StatusCode::kInvalidArgument),
              HasSubstr("empty.gguf: the file is empty"));
  EXPECT_THAT(ErrorOf("/dev/null", absl::StatusCode::kInvalidArgument),
              HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace luna::model
