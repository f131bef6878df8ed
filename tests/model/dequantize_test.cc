// Every tensor type against the values an independent implementation gives for the same bytes.
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/model/tensor.h"
#include "gtest/gtest.h"

namespace luna::model {
namespace {

constexpr char kGoldenPath[] = "tests/model/golden/dequantize.bin";

struct GoldenCase {
  std::string name;
  uint32_t num_blocks = 0;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

std::vector<GoldenCase> ReadGolden() {
  std::ifstream file(kGoldenPath, std::ios::binary);
  std::vector<GoldenCase> cases;
  char name[8];
  while (file.read(name, sizeof(name))) {
    uint32_t counts[3];
    file.read(reinterpret_cast<char*>(counts), sizeof(counts));
    GoldenCase c;
    c.name.assign(name, strnlen(name, sizeof(name)));
    c.num_blocks = counts[0];
    c.bytes.resize(counts[1]);
    c.values.resize(counts[2]);
    file.read(reinterpret_cast<char*>(c.bytes.data()),
              static_cast<std::streamsize>(c.bytes.size()));
    file.read(reinterpret_cast<char*>(c.values.data()),
              static_cast<std::streamsize>(c.values.size() * sizeof(float)));
    EXPECT_TRUE(file.good()) << c.name;
    cases.push_back(std::move(c));
  }
  return cases;
}

constexpr DType kAllTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,
                               DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                               DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

TEST(DequantizeTest, EqualsGoldenBitForBit) {
  const std::vector<GoldenCase> cases = ReadGolden();
  ASSERT_EQ(cases.size(), std::size(kAllTypes)) << kGoldenPath;
  for (size_t i = 0; i < cases.size(); ++i) {
    const GoldenCase& c = cases[i];
    const DType dtype = kAllTypes[i];
    ASSERT_EQ(c.name, DTypeName(dtype));
    ASSERT_EQ(c.bytes.size(), c.num_blocks * static_cast<size_t>(BlockBytes(dtype)));
    ASSERT_EQ(c.values.size(), c.num_blocks * static_cast<size_t>(BlockValues(dtype)));
    std::vector<float> out(c.values.size());
    DequantizeRow(dtype, c.bytes.data(), static_cast<int64_t>(out.size()), out.data());
    for (size_t k = 0; k < out.size(); ++k) {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[k]), std::bit_cast<uint32_t>(c.values[k]))
          << c.name << " value " << k << ": " << out[k] << " for " << c.values[k];
    }
  }
}

TEST(DequantizeTest, HalfKeepsInfinityAndNan) {
  const uint16_t halves[] = {0x7c00, 0xfc00, 0x7e00, 0x7c01};
  float out[4];
  DequantizeRow(DType::kF16, reinterpret_cast<const std::byte*>(halves), 4, out);
  EXPECT_EQ(out[0], INFINITY);
  EXPECT_EQ(out[1], -INFINITY);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_TRUE(std::isnan(out[3]));
}

TEST(DequantizeTest, WholeTensorIsItsRows) {
  std::vector<std::byte> bytes(3 * 2 * 18);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 60);
  const Tensor tensor{DType::kQ4_0, 3, 64, bytes.data()};
  EXPECT_EQ(tensor.row_bytes(), 36);
  EXPECT_EQ(tensor.bytes(), 108);
  const std::vector<float> all = Dequantize(tensor);
  ASSERT_EQ(all.size(), 192u);
  std::vector<float> row(64);
  for (int r = 0; r < 3; ++r) {
    DequantizeRow(DType::kQ4_0, tensor.row(r), 64, row.data());
    EXPECT_EQ(std::memcmp(row.data(), all.data() + 64 * r, 64 * sizeof(float)), 0) << "row " << r;
  }
}

TEST(DequantizeDeathTest, PartOfABlockIsAnError) {
  std::byte block[34] = {};
  float out[32];
  EXPECT_DEATH(DequantizeRow(DType::kQ8_0, block, 31, out), "whole blocks of Q8_0");
}

}  // namespace
}  // namespace luna::model
