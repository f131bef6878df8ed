#include "core/model/safetensors.h"

#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/model_files.h"

namespace luna::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<std::vector<NamedTensor>> Parse(const std::string& file) {
  return ParseSafetensors(AsBytes(file), "x.safetensors");
}

TEST(SafetensorsTest, ReadsTensorsInTheOrderOfTheFile) {
  const std::string file = SafetensorsWriter()
                               .AddRamp("b", {2, 3}, 5.0f)
                               .Add("a", {2}, std::string(4, '\x01'), "BF16")
                               .Build();
  const auto tensors = Parse(file);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].first, "b");
  EXPECT_THAT((*tensors)[0].second.shape, ElementsAre(2, 3));
  EXPECT_EQ((*tensors)[0].second.bytes, 24);
  float last;
  std::memcpy(&last, (*tensors)[0].second.data + 20, 4);
  EXPECT_EQ(last, 10.0f);
  EXPECT_EQ((*tensors)[1].second.dtype, DType::kBF16);
}

TEST(SafetensorsTest, MetadataIsNoTensor) {
  const std::string file = SafetensorsWriter::WithHeader(R"({"__metadata__":{"format":"pt"}})", "");
  const auto tensors = Parse(file);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_TRUE(tensors->empty());
}

std::string OneTensor(const std::string& fields, size_t data_bytes = 16) {
  return SafetensorsWriter::WithHeader(absl::StrCat("{\"t\":{", fields, "}}"),
                                       std::string(data_bytes, 'x'));
}

TEST(SafetensorsTest, RefusesHostileHeaders) {
  std::string huge_length(16, '\0');
  huge_length[7] = '\x80';  // 2^63
  std::string all_ones(64, '\xff');
  const struct {
    std::string file;
    absl::StatusCode code;
    const char* says;
  } cases[] = {
      {"short", absl::StatusCode::kInvalidArgument, "has 5 bytes"},
      {huge_length, absl::StatusCode::kInvalidArgument,
       "9223372036854775808 bytes; the limit is 8"},
      {all_ones, absl::StatusCode::kInvalidArgument, "18446744073709551615"},
      {SafetensorsWriter::WithHeader("{", ""), absl::StatusCode::kInvalidArgument,
       "not valid JSON"},
      {SafetensorsWriter::WithHeader("[]", ""), absl::StatusCode::kInvalidArgument,
       "not a JSON obj"},
      {SafetensorsWriter::WithHeader(std::string(100000, '['), ""),
       absl::StatusCode::kInvalidArgument, "nests deeper"},
      {SafetensorsWriter::WithHeader(R"({"t":1})", ""), absl::StatusCode::kInvalidArgument,
       "needs"},
      {SafetensorsWriter::WithHeader(
           R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{}})", "abcd"),
       absl::StatusCode::kInvalidArgument, "\"t\" is there twice"},
      {OneTensor(R"("dtype":"F32","shape":[4],"data_offsets":[16,0])"),
       absl::StatusCode::kInvalidArgument, "lies from 16 to 0"},
      {OneTensor(R"("dtype":"F32","shape":[5],"data_offsets":[0,20])"),
       absl::StatusCode::kInvalidArgument, "lies from 0 to 20; the data has 16 bytes"},
      {OneTensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,16])"),
       absl::StatusCode::kInvalidArgument, "has 16 bytes; shape [3] of F32 needs 12"},
      {OneTensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
       absl::StatusCode::kInvalidArgument, "is not possible"},
      {OneTensor(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"),
       absl::StatusCode::kInvalidArgument, "is not possible"},
      {OneTensor(R"("dtype":"F32","shape":[0],"data_offsets":[0,0])"),
       absl::StatusCode::kInvalidArgument, "is not possible"},
      {OneTensor(R"("dtype":"F32","shape":[-4],"data_offsets":[0,16])"),
       absl::StatusCode::kInvalidArgument, "shape is [-4]"},
      {OneTensor(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,16])"),
       absl::StatusCode::kInvalidArgument, "shape is [2.5]"},
      {OneTensor(R"("dtype":"F32","shape":[4],"data_offsets":[0,18446744073709551615])"),
       absl::StatusCode::kInvalidArgument, "data_offsets is"},
      {OneTensor(R"("dtype":"F32","shape":[4],"data_offsets":[0])"),
       absl::StatusCode::kInvalidArgument, "data_offsets is [0]"},
      {OneTensor(R"("dtype":"I64","shape":[2],"data_offsets":[0,16])"),
       absl::StatusCode::kUnimplemented, "dtype \"I64\" is not supported"},
      {SafetensorsWriter::WithHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                                         "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                                     std::string(12, 'x')),
       absl::StatusCode::kInvalidArgument, "tensor b: overlaps tensor a"},
  };
  for (const auto& c : cases) {
    const auto tensors = Parse(c.file);
    EXPECT_EQ(tensors.status().code(), c.code) << c.says;
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr(c.says));
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr("x.safetensors"));
  }
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string file = SafetensorsWriter().AddRamp("a", {2, 3}).AddRamp("b", {4}).Build();
  for (size_t size = 0; size < file.size(); ++size) {
    // An exact copy, so that a sanitizer sees a read past its end.
    const std::vector<char> part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    const auto tensors = ParseSafetensors(AsBytes({part.data(), part.size()}), "x");
    EXPECT_FALSE(tensors.ok()) << size << " bytes";
  }
}

TEST(SafetensorsTest, MutatedFilesGiveAStatusOrTensorsInside) {
  const std::string file = SafetensorsWriter().AddRamp("a", {2, 3}).AddRamp("b", {4}).Build();
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> bytes(file.begin(), file.end());
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto span = AsBytes({bytes.data(), bytes.size()});
    const auto tensors = ParseSafetensors(span, "x");
    if (!tensors.ok()) continue;
    ++accepted;
    for (const auto& [name, tensor] : *tensors) {
      ASSERT_GE(tensor.data, span.data()) << name;
      ASSERT_LE(tensor.data + tensor.bytes, span.data() + span.size()) << name;
    }
  }
  EXPECT_GT(accepted, 100) << "no mutation reaches the end of the parser";
}

}  // namespace
}  // namespace luna::model
