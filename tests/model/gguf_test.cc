#include "core/model/gguf.h"

#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/model_files.h"

namespace luna::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<GgufFile> Parse(const std::string& file) {
  return ParseGguf(AsBytes(file), "x.gguf");
}

GgufWriter SmallWriter() {
  GgufWriter writer;
  writer.String("general.architecture", "llama")
      .U32("llama.block_count", 2)
      .F32("llama.eps", 0.5f)
      .Bool("flag", true)
      .Strings("tokens", {"a", "", "bcd"})
      .Ints("types", {1, -3, 6})
      .Floats("scores", {0.5f, -1.0f})
      .TensorF32("m", {3, 2}, 1.0f)
      .Tensor("q", {32, 1}, kGgmlQ8_0, std::string(34, '\x02'));
  return writer;
}

TEST(GgufTest, ReadsMetadataAndTensors) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string bytes = SmallWriter().Build();
    std::string file = bytes;
    file[4] = static_cast<char>(version);
    const auto parsed = Parse(file);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->version, version);
    GgufFields fields(*parsed, "llama.");
    EXPECT_EQ(fields.RequiredInt("block_count"), 2);
    EXPECT_EQ(fields.Number("eps", 0), 0.5);
    EXPECT_EQ(fields.Int("absent", 7), 7);
    GgufFields all(*parsed, "");
    EXPECT_TRUE(all.Bool("flag", false));
    EXPECT_EQ(all.String("general.architecture", ""), "llama");
    EXPECT_TRUE(fields.status().ok() && all.status().ok());
    const auto& tokens = std::get<GgufArray>(*parsed->Find("tokens"));
    EXPECT_THAT(*GgufStrings(tokens), ElementsAre("a", "", "bcd"));
    EXPECT_FALSE(GgufInts(tokens).has_value());
    EXPECT_THAT(*GgufInts(std::get<GgufArray>(*parsed->Find("types"))), ElementsAre(1, -3, 6));
    EXPECT_THAT(*GgufFloats(std::get<GgufArray>(*parsed->Find("scores"))),
                ElementsAre(0.5f, -1.0f));
    ASSERT_EQ(parsed->tensors.size(), 2u);
    EXPECT_EQ(parsed->tensors[0].first, "m");
    EXPECT_THAT(parsed->tensors[0].second.shape, ElementsAre(2, 3));
    float value;
    std::memcpy(&value, parsed->tensors[0].second.data + 20, 4);
    EXPECT_EQ(value, 6.0f);
    EXPECT_EQ(parsed->tensors[1].second.dtype, DType::kQ8_0);
    EXPECT_EQ(parsed->tensors[1].second.bytes, 34);
  }
}

TEST(GgufTest, FieldsNameKeyAndValue) {
  const std::string bytes = SmallWriter().Build();
  const auto parsed = Parse(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto message = [&](auto read) {
    GgufFields fields(*parsed, "llama.");
    read(fields);
    return std::string(fields.status().message());
  };
  EXPECT_THAT(message([](auto& f) { f.RequiredInt("x"); }), HasSubstr("llama.x is missing"));
  EXPECT_THAT(message([](auto& f) { f.Int("eps", 0); }), HasSubstr("llama.eps is 0.5; it must be"));
  EXPECT_THAT(message([](auto& f) { f.Bool("eps", false); }), HasSubstr("true or false"));
  EXPECT_THAT(message([](auto& f) { f.Unsupported("eps", "1 is"); }),
              HasSubstr("llama.eps is 0.5, which is not supported; 1 is"));
}

std::string Header(uint64_t tensors, uint64_t keys, const std::string& rest) {
  std::string file = "GGUF";
  AppendRaw(file, uint32_t{3});
  AppendRaw(file, tensors);
  AppendRaw(file, keys);
  return file + rest;
}

std::string Number64(uint64_t value) {
  std::string bytes;
  AppendRaw(bytes, value);
  return bytes;
}

std::string ArrayContent(uint32_t type, uint64_t count) {
  std::string bytes;
  AppendRaw(bytes, type);
  AppendRaw(bytes, count);
  return bytes;
}

TEST(GgufTest, RefusesHostileFiles) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;
  constexpr uint64_t kHuge = ~uint64_t{0};
  const std::string padding(256, '\0');
  std::string big_endian = SmallWriter().Build();
  std::memcpy(big_endian.data() + 4, "\0\0\0\3", 4);
  const struct {
    std::string file;
    absl::StatusCode code;
    const char* says;
  } cases[] = {
      {"", kInvalid, "is not a GGUF file"},
      {"GGML....", kInvalid, "is not a GGUF file"},
      {GgufWriter(1).Build(), kUnsupported, "GGUF version 1 is not supported"},
      {big_endian, kUnsupported, "little-endian"},
      {Header(0, kHuge, padding), kInvalid, "says it has 18446744073709551615 metadata keys"},
      {Header(kHuge, 0, padding), kInvalid, "says it has 18446744073709551615 tensors"},
      {Header(0, 1, Number64(kHuge) + padding), kInvalid, "inside a metadata key"},
      {Header(0, 1, Number64(0) + padding), kInvalid, "a metadata key has 0 bytes"},
      {GgufWriter().Raw("k", kStr, Number64(kHuge)).Build(), kInvalid, "inside metadata k"},
      {GgufWriter().Raw("k", 13, padding).Build(), kInvalid, "metadata k has type 13"},
      {GgufWriter().Raw("k", kArr, ArrayContent(kStr, kHuge)).Build(), kInvalid,
       "inside metadata k"},
      {GgufWriter().Raw("k", kArr, ArrayContent(kU64, uint64_t{1} << 61)).Build() + padding,
       kInvalid, "metadata k has 2305843009213693952 elements of 8 bytes"},
      {GgufWriter().Raw("k", kArr, ArrayContent(kU8, kHuge)).Build(), kInvalid,
       "elements of 1 bytes"},
      {GgufWriter().Raw("k", kArr, ArrayContent(kArr, 1)).Build(), kUnsupported, "array of arrays"},
      {GgufWriter().Raw("k", kArr, ArrayContent(99, 1)).Build(), kInvalid, "an array of type 99"},
      {GgufWriter().U32("k", 1).U32("k", 2).Build(), kInvalid, "metadata k is there twice"},
      {GgufWriter().U32("general.alignment", 0).Build(), kInvalid, "general.alignment is 0"},
      {GgufWriter().U32("general.alignment", 12).Build(), kInvalid, "general.alignment is 12"},
      {GgufWriter().Describe("t", {}, 0, 0).Build() + padding, kInvalid, "t has 0 dimensions"},
      {GgufWriter().Describe("t", {1, 1, 1, 1, 1}, 0, 0).Build() + padding, kInvalid,
       "t has 5 dimensions; the limit is 4"},
      {GgufWriter().Describe("t", {4, 0}, 0, 0).Build() + padding, kInvalid, "a dimension of 0"},
      {GgufWriter().Describe("t", {kHuge}, 0, 0).Build() + padding, kInvalid,
       "a dimension of 18446744073709551615"},
      {GgufWriter().Describe("t", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0).Build() + padding,
       kInvalid, "is not possible for F32"},
      {GgufWriter().Describe("t", {uint64_t{1} << 62}, 0, 0).Build() + padding, kInvalid,
       "is not possible for F32"},
      {GgufWriter().Describe("t", {33}, kGgmlQ8_0, 0).Build() + padding, kInvalid,
       "is not possible for Q8_0"},
      {GgufWriter().Describe("t", {256}, 10, 0).Build() + padding, kUnsupported,
       "tensor t has type Q2_K, which is not supported"},
      {GgufWriter().Describe("t", {4}, 77, 0).Build() + padding, kInvalid, "the unknown type 77"},
      {GgufWriter().Describe("t", {4}, 0, 8).Build() + padding, kInvalid, "not a multiple of the"},
      {GgufWriter().Describe("t", {4}, 0, 0).Build(), kInvalid,
       "has 16 bytes at 0; the data has 0"},
      {GgufWriter().Describe("t", {4}, 0, kHuge - 31).Build() + padding, kInvalid,
       "16 bytes at 18446744073709551584"},
      {GgufWriter().TensorF32("a", {16}).Describe("b", {4}, 0, 32).Build(), kInvalid,
       "tensor b overlaps tensor a"},
  };
  for (const auto& c : cases) {
    const auto parsed = Parse(c.file);
    EXPECT_EQ(parsed.status().code(), c.code) << c.says << ": " << parsed.status();
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(c.says));
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("x.gguf"));
  }
}

TEST(GgufTest, EveryTruncationIsRefused) {
  const std::string file = SmallWriter().Build();
  for (size_t size = 0; size < file.size(); ++size) {
    const std::vector<char> part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(ParseGguf(AsBytes({part.data(), part.size()}), "x").ok()) << size << " bytes";
  }
}

TEST(GgufTest, AlignmentMovesTheData) {
  // 64 instead of 32: the data begins at the next multiple of it.
  std::string file = GgufWriter().U32("general.alignment", 64).Describe("t", {4}, 0, 0).Build();
  file.resize((file.size() + 63) / 64 * 64);
  file += Ramp(4, 3.0f);
  const auto parsed = Parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  float first;
  std::memcpy(&first, parsed->tensors[0].second.data, 4);
  EXPECT_EQ(first, 3.0f);
}

TEST(GgufTest, MutatedFilesGiveAStatusOrTensorsInside) {
  const std::string file = SmallWriter().Build();
  std::mt19937 random(11);
  int accepted = 0;
  for (int round = 0; round < 30000; ++round) {
    std::vector<char> bytes(file.begin(), file.end());
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto span = AsBytes({bytes.data(), bytes.size()});
    const auto parsed = ParseGguf(span, "x");
    if (!parsed.ok()) continue;
    ++accepted;
    for (const auto& [name, tensor] : parsed->tensors) {
      ASSERT_GE(tensor.data, span.data());
      ASSERT_LE(tensor.data + tensor.bytes, span.data() + span.size());
    }
    for (const auto& [key, value] : parsed->metadata) {
      const auto* array = std::get_if<GgufArray>(&value);
      if (array != nullptr && array->type == GgufType::kString) {
        ASSERT_EQ(GgufStrings(*array)->size(), array->count);
      }
    }
  }
  EXPECT_GT(accepted, 100) << "no mutation reaches the end of the parser";
}

}  // namespace
}  // namespace luna::model
