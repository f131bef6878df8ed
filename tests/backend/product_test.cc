// Products of each code path and weights format, in odd sizes, against plain sums over what packing
// and preparing left of the numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/backend/cpu/bf16_format.h"
#include "core/backend/cpu/int8_format.h"
#include "core/backend/cpu/kernels.h"

namespace luna::backend::cpu {
namespace {

struct ProductCase {
  const Kernels* kernels;
  WeightsFormat format;
  bool outlying_channels = false;
  const Product& product() const { return kernels->products.Of(format, outlying_channels); }
  std::string label() const {
    std::string label(kernels->name);
    label.append("_").append(WeightsFormatName(format));
    return outlying_channels ? label + "_of_16_bits" : label;
  }
  friend std::ostream& operator<<(std::ostream& out, const ProductCase& c) {
    return out << c.label();
  }
};

std::vector<ProductCase> AllProducts() {
  std::vector<ProductCase> cases;
  for (const Kernels* kernels : AvailableKernels()) {
    for (const auto format : {WeightsFormat::kF32, WeightsFormat::kBf16, WeightsFormat::kInt8}) {
      cases.push_back({kernels, format});
    }
    cases.push_back({kernels, WeightsFormat::kInt8, /*outlying_channels=*/true});
  }
  return cases;
}

// Normal, with one input a hundred times the others', as real models have.
std::vector<float> Random(int rows, int columns, uint32_t seed) {
  std::vector<float> values(int64_t{rows} * columns);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  for (int r = 0; r < rows; ++r) values[r * columns + columns / 2] *= 100.0f;
  return values;
}

float FromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

template <typename T>
T At(const std::byte* p, int64_t index) {
  T value;
  std::memcpy(&value, p + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// One product: `outputs` of `inputs`, for `rows` rows.
class Problem {
 public:
  Problem(const ProductCase& c, int rows, int inputs, int outputs)
      : rows(rows),
        inputs(inputs),
        outputs(outputs),
        panels(static_cast<int>(PadToPanel(outputs) / kPanel)),
        case_(c),
        a(Random(rows, inputs, 1)),
        bias(panels * kPanel) {
    std::vector<float> weight = Random(panels * kPanel, inputs, 2);
    const Product& product = c.product();
    packed.resize(panels * product.panel_bytes(inputs));
    for (int p = 0; p < panels; ++p) {
      product.pack(weight.data() + int64_t{p} * kPanel * inputs, inputs,
                   packed.data() + p * product.panel_bytes(inputs));
    }
    for (int o = 0; o < outputs; ++o) bias[o] = 0.1f * o;
    a_bytes = product.prepare == nullptr ? inputs * static_cast<int64_t>(sizeof(float))
                                         : product.row_bytes(inputs);
    prepared.resize(rows * a_bytes);
    for (int r = 0; r < rows; ++r) {
      std::byte* row = prepared.data() + r * a_bytes;
      if (product.prepare == nullptr) {
        std::memcpy(row, a.data() + r * inputs, a_bytes);
        continue;
      }
      // In two parts, as different threads may.
      const int middle = std::min(inputs, product.group);
      product.prepare(a.data() + r * inputs, inputs, middle, inputs, row);
      product.prepare(a.data() + r * inputs, inputs, 0, middle, row);
    }
  }

  MultiplyArgs Args(std::vector<float>& out) const {
    return {.a = prepared.data(),
            .a_stride = a_bytes,
            .rows = rows,
            .panels = packed.data(),
            .inputs = inputs,
            .panel_begin = 0,
            .panel_end = panels,
            .bias = bias.data(),
            .out = out.data(),
            .out_stride = panels * kPanel};
  }
  std::vector<float> Run() const {
    std::vector<float> out(rows * panels * kPanel, 100.0f);
    case_.product().multiply(Args(out));
    return out;
  }

  // What a row and a weight are after their rounding.
  float Activation(int r, int i) const {
    const std::byte* row = prepared.data() + r * a_bytes;
    if (case_.product().prepare == nullptr) return At<float>(row, i);
    if (case_.format == WeightsFormat::kBf16) return FromBf16(At<uint16_t>(row, i));
    const float scale = At<float>(row + Int8ScalesOffset(inputs), i / kInt8Group);
    const std::byte* group = row + i / kInt8Group * kInt8RowGroupBytes;
    const int high = At<int8_t>(group, i % kInt8Group);
    const int low = At<int8_t>(group + kInt8Group, i % kInt8Group);
    return scale * (static_cast<float>(high) + static_cast<float>(low) / 256);
  }
  float Weight(int o, int i) const {
    const std::byte* panel = packed.data() + o / kPanel * case_.product().panel_bytes(inputs);
    o %= kPanel;
    switch (case_.format) {
      case WeightsFormat::kF32:
        return At<float>(panel, int64_t{i} * kPanel + o);
      case WeightsFormat::kBf16:
        return FromBf16(At<uint16_t>(panel, (i / 2 * kPanel + o) * 2 + i % 2));
      case WeightsFormat::kInt8:
        break;
    }
    panel += i / kInt8Group * kInt8GroupBytes;
    const float scale = At<float>(panel + kInt8Steps * kInt8StepBytes, o);
    const int level = At<uint8_t>(panel, i % kInt8Group / 4 * kInt8StepBytes + o * 4 + i % 4);
    return scale * static_cast<float>(level - 128);
  }

  const int rows, inputs, outputs, panels;

 private:
  const ProductCase case_;

 public:
  std::vector<float> a, bias;
  std::vector<std::byte> packed, prepared;
  int64_t a_bytes = 0;
};

class ProductTest : public testing::TestWithParam<ProductCase> {};

TEST_P(ProductTest, EqualsThePlainSum) {
  for (const int rows : {1, 2, 3, 5, 6, 7, 13, 30}) {
    for (const auto& [inputs, outputs] :
         {std::pair{1, 1}, {7, 16}, {33, 17}, {64, 100}, {129, 150}}) {
      const Problem problem(GetParam(), rows, inputs, outputs);
      const std::vector<float> out = problem.Run();
      for (int r = 0; r < rows; ++r) {
        for (int o = 0; o < outputs; ++o) {
          double sum = problem.bias[o], size = 1;
          for (int i = 0; i < inputs; ++i) {
            const double product = double{problem.Activation(r, i)} * problem.Weight(o, i);
            sum += product;
            size += std::abs(product);
          }
          // Each of `inputs` sums rounds to 2^-24 of at most `size`; a few at a time in bf16.
          ASSERT_NEAR(out[r * problem.panels * kPanel + o], sum, 2e-7 * size * std::sqrt(inputs))
              << rows << " rows, " << inputs << " inputs, row " << r << ", output " << o;
        }
      }
    }
  }
}

TEST_P(ProductTest, IsTheSameForAnyRowsAndPanels) {
  const Problem problem(GetParam(), 31, 177, 150);
  const std::vector<float> whole = problem.Run();
  std::vector<float> parts(whole.size());
  for (int row = 0, count = 1; row < problem.rows; row += count, count = count % 8 + 1) {
    for (int panel = 0; panel < problem.panels; panel += 3) {
      MultiplyArgs args = problem.Args(parts);
      args.a += row * args.a_stride;
      args.out += row * args.out_stride;
      args.rows = std::min(count, problem.rows - row);
      args.panel_begin = panel;
      args.panel_end = std::min(panel + 3, problem.panels);
      GetParam().product().multiply(args);
    }
  }
  EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)), 0);
}

TEST_P(ProductTest, AddsToOut) {
  const Problem problem(GetParam(), 4, 20, 40);
  const std::vector<float> plain = problem.Run();
  std::vector<float> added(plain.size(), 2.0f);
  MultiplyArgs args = problem.Args(added);
  args.add_to_out = true;
  GetParam().product().multiply(args);
  for (size_t i = 0; i < plain.size(); ++i) ASSERT_FLOAT_EQ(added[i], plain[i] + 2.0f);
}

// A row that is not finite must not come out as ordinary numbers.
TEST_P(ProductTest, WhatIsNotFiniteReachesTheResult) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    Problem problem(GetParam(), 2, 70, 16);
    const Product& product = GetParam().product();
    problem.a[69] = bad;
    if (product.prepare == nullptr) {
      std::memcpy(problem.prepared.data(), problem.a.data(), problem.a_bytes);
    } else {
      product.prepare(problem.a.data(), 70, 0, 70, problem.prepared.data());
    }
    const std::vector<float> out = problem.Run();
    for (int o = 0; o < 16; ++o) {
      EXPECT_FALSE(std::isfinite(out[o])) << bad << ", output " << o;
      EXPECT_TRUE(std::isfinite(out[16 + o]));
    }
  }
}

TEST_P(ProductTest, ZerosStayZeros) {
  Problem problem(GetParam(), 1, 70, 16);
  const Product& product = GetParam().product();
  std::fill(problem.a.begin(), problem.a.end(), 0.0f);
  if (product.prepare == nullptr) {
    std::memcpy(problem.prepared.data(), problem.a.data(), problem.a_bytes);
  } else {
    product.prepare(problem.a.data(), 70, 0, 70, problem.prepared.data());
  }
  const std::vector<float> out = problem.Run();
  for (int o = 0; o < 16; ++o) EXPECT_EQ(out[o], problem.bias[o]);
}

INSTANTIATE_TEST_SUITE_P(All, ProductTest, testing::ValuesIn(AllProducts()),
                         [](const auto& info) { return info.param.label(); });

TEST(Int8FormatTest, ChannelsThatAreFarLargerCostTheirOwnGroupAlone) {
  const int inputs = 512;
  std::vector<float> rows = Random(kPanel, inputs, 3);  // input 256 is a hundred times the others
  std::vector<std::byte> panel(Int8PanelBytes(inputs));
  PackInt8(rows.data(), inputs, panel.data());
  const float first = At<float>(panel.data() + kInt8Steps * kInt8StepBytes, 0);
  const float ninth =
      At<float>(panel.data() + 8 * kInt8GroupBytes + kInt8Steps * kInt8StepBytes, 0);
  EXPECT_LT(first, 4.0f / 127.0f);
  EXPECT_GT(ninth, 5 * first);
}

TEST(Int8FormatTest, AGroupThatAValueStandsOutOfKeepsSixteenBits) {
  constexpr int kInputs = 2 * kInt8Group;
  std::vector<float> x(kInputs);
  for (int i = 0; i < kInputs; ++i) x[i] = std::sin(static_cast<float>(i) + 0.5f);
  x[kInt8Group + 3] = 50.0f;
  for (const ProductCase& c : AllProducts()) {
    if (c.format != WeightsFormat::kInt8) continue;
    std::vector<std::byte> row(Int8RowBytes(kInputs));
    c.product().prepare(x.data(), kInputs, 0, kInputs, row.data());
    const auto error = [&](int i) {
      const float scale = At<float>(row.data() + Int8ScalesOffset(kInputs), i / kInt8Group);
      const std::byte* group = row.data() + i / kInt8Group * kInt8RowGroupBytes;
      const float level = At<int8_t>(group, i % kInt8Group) +
                          At<int8_t>(group + kInt8Group, i % kInt8Group) / 256.0f;
      return std::abs(scale * level - x[i]);
    };
    const bool always = c.outlying_channels;
    EXPECT_EQ(At<uint8_t>(row.data() + Int8HasLowOffset(kInputs), 0), always) << c;
    EXPECT_EQ(At<uint8_t>(row.data() + Int8HasLowOffset(kInputs), 1), 1) << c;
    const float bound = always ? 1.01f / 32512.0f : 0.5001f / 127.0f;
    for (int i = 0; i < kInt8Group; ++i) EXPECT_LE(error(i), bound) << c << ", " << i;
    for (int i = kInt8Group; i < kInputs; ++i) {
      EXPECT_LE(error(i), 50.0f * 1.01f / 32512.0f) << c << ", " << i;
    }
  }
}

TEST(Bf16FormatTest, RoundsToTheNearestEven) {
  EXPECT_EQ(ToBf16(1.0f), 0x3f80);
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_TRUE(std::isnan(FromBf16(ToBf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(FromBf16(ToBf16(3.4e38f))));
}

}  // namespace
}  // namespace luna::backend::cpu
