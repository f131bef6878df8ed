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
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/cpu/bf16_format.h"
#include "core/backend/cpu/int8_format.h"
#include "core/backend/cpu/kernel_paths.h"
#include "core/backend/cpu/kernels.h"
#include "core/model/tensor.h"

namespace luna::backend::cpu {
namespace {

struct ProductCase {
  std::string path, format;
  const Product* product;
  bool is_int() const { return product->group == kInt8Group && !is_bf16(); }
  bool is_bf16() const { return product->pack == PackBf16; }
  bool is_int4() const { return product->pack_q4 != nullptr; }
  // Of an int product: whether activations are bytes, and not words.
  bool bytes() const { return product->row_bytes == int8_bytes::RowBytes; }
  std::string label() const { return path + "_" + format; }
  friend std::ostream& operator<<(std::ostream& out, const ProductCase& c) {
    return out << c.label();
  }
};

std::vector<ProductCase> AllProducts() {
  std::vector<ProductCase> cases;
  for (const Kernels* kernels : AvailableKernels()) {
    const Products& products = kernels->products;
    for (const auto& [format, product] : {std::pair{"f32", &products.f32},
                                          {"bf16", &products.fast.bf16},
                                          {"int8", &products.fast.int8},
                                          {"int4", &products.fast.int4},
                                          {"bf16_precise", &products.precise.bf16},
                                          {"int8_precise", &products.precise.int8},
                                          {"int4_precise", &products.precise.int4}}) {
      cases.push_back({std::string(kernels->name), format, product});
    }
  }
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16")) {
    const Product& dot = Avx512VnniKernels(/*dot_bf16=*/true).products.fast.bf16;
    cases.push_back({"avx512vnni", "bf16_dots", &dot});
  }
#endif
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

// Input i of a row that was prepared for the int8 product.
float WordActivation(const std::byte* row, int inputs, int i) {
  return At<float>(row + int8_words::ScalesOffset(inputs), i / kInt8Group) * At<int16_t>(row, i);
}

float ByteActivation(const std::byte* row, int inputs, int i) {
  const int g = i / kInt8Group;
  for (int n = g * int8_bytes::kOutliers; n < (g + 1) * int8_bytes::kOutliers; ++n) {
    if (At<uint8_t>(row + int8_bytes::TakenOffset(inputs), n) == 0) continue;
    const auto outlier = At<int8_bytes::Outlier>(row + int8_bytes::OutliersOffset(inputs), n);
    const int at = outlier.step + std::countr_zero(static_cast<uint32_t>(outlier.one)) / 8;
    if (at == i % kInt8Group) return outlier.value;
  }
  return At<float>(row + int8_bytes::ScalesOffset(inputs), g) * At<int8_t>(row, i);
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
    const Product& product = *c.product;
    packed.resize(panels * product.panel_bytes(inputs));
    if (c.is_int4()) {
      PackQ4();
    } else {
      const std::vector<float> weight = Random(panels * kPanel, inputs, 2);
      for (int p = 0; p < panels; ++p) {
        product.pack(weight.data() + int64_t{p} * kPanel * inputs, inputs,
                     packed.data() + p * product.panel_bytes(inputs));
      }
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
    case_.product->multiply(Args(out));
    return out;
  }

  // What a row and a weight are after their rounding.
  float Activation(int r, int i) const {
    const std::byte* row = prepared.data() + r * a_bytes;
    if (case_.product->prepare == nullptr) return At<float>(row, i);
    if (case_.is_bf16()) return FromBf16(At<uint16_t>(row, i));
    return case_.bytes() ? ByteActivation(row, inputs, i) : WordActivation(row, inputs, i);
  }
  float Weight(int o, int i) const {
    if (case_.is_int4()) return q4_weights_[o * inputs + i];
    const std::byte* panel = packed.data() + o / kPanel * case_.product->panel_bytes(inputs);
    o %= kPanel;
    if (case_.format == "f32") return At<float>(panel, int64_t{i} * kPanel + o);
    if (case_.is_bf16()) {
      return FromBf16(At<uint16_t>(panel, (i / 2 * kPanel + o) * 2 + i % 2));
    }
    panel += i / kInt8Group * kInt8GroupBytes;
    i %= kInt8Group;
    const float scale = At<float>(panel + kInt8GroupLevelBytes, o);
    const int level = case_.bytes() ? At<uint8_t>(panel, (i / 4 * kPanel + o) * 4 + i % 4) - 128
                                    : At<int8_t>(panel, (i / 2 * kPanel + o) * 2 + i % 2);
    return scale * static_cast<float>(level);
  }

  const int rows, inputs, outputs, panels;

 private:
  // Rows as a file has them, Q4_1 and Q4_0 in turn, and what they are in f32. Files have whole
  // groups; of the last one here, some inputs are past the end.
  void PackQ4() {
    std::mt19937 random(2);
    const int groups = Int8Groups(inputs);
    std::vector<std::vector<std::byte>> files;
    std::vector<Q4Row> q4_rows;
    for (int o = 0; o < panels * kPanel; ++o) {
      const bool has_min = o % 2 == 0;
      const model::DType dtype = has_min ? model::DType::kQ4_1 : model::DType::kQ4_0;
      const int header = has_min ? 4 : 2;
      std::vector<std::byte>& file = files.emplace_back(groups * (header + 16));
      for (std::byte& byte : file) byte = std::byte(random() % 256);
      for (int g = 0; g < groups; ++g) {
        const uint16_t ordinary[] = {uint16_t(0x2c00 + random() % 0x400),   // 1/16 to 1/8
                                     uint16_t(0xb400 + random() % 0x400)};  // -1/4 to -1/2
        std::memcpy(file.data() + g * (header + 16), ordinary, header);
      }
      std::vector<float> row(groups * kInt8Group);
      model::DequantizeRow(dtype, file.data(), groups * kInt8Group, row.data());
      q4_weights_.insert(q4_weights_.end(), row.begin(), row.begin() + inputs);
      q4_rows.push_back({.blocks = file.data(), .has_min = has_min});
    }
    const int64_t panel_bytes = case_.product->panel_bytes(inputs);
    for (int p = 0; p < panels; ++p) {
      case_.product->pack_q4(std::span<const Q4Row, kPanel>(&q4_rows[p * kPanel], kPanel), inputs,
                             packed.data() + p * panel_bytes);
    }
  }

  const ProductCase case_;
  std::vector<float> q4_weights_;  // [panels * kPanel, inputs]

 public:
  std::vector<float> a, bias;
  std::vector<std::byte> packed, prepared;
  int64_t a_bytes = 0;
};

class ProductTest : public testing::TestWithParam<ProductCase> {};

TEST_P(ProductTest, EqualsThePlainSum) {
  for (const int rows : {1, 2, 3, 5, 6, 7, 13, 30, 100}) {
    for (const auto& [inputs, outputs] :
         {std::pair{1, 1}, {7, 16}, {33, 17}, {64, 100}, {129, 150}, {1500, 70}}) {
      const Problem problem(GetParam(), rows, inputs, outputs);
      const std::vector<float> out = problem.Run();
      for (int r = 0; r < rows; ++r) {
        for (int o = 0; o < outputs; ++o) {
          double sum = problem.bias[o], size = 1;
          for (int i = 0; i < inputs; ++i) {
            const double product = double{problem.Activation(r, i)} * problem.Weight(o, i);
            sum += product;
            // In 4 bits a level's product and its minimum's may take most of each other away.
            const double parts = GetParam().is_int4() ? 15.0 / 8 + 0.5 : 0.0;
            size += std::abs(product) + parts * std::abs(problem.Activation(r, i));
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
  const Problem problem(GetParam(), 131, 777, 150);
  const std::vector<float> whole = problem.Run();
  std::vector<float> parts(whole.size());
  for (int row = 0, count = 1; row < problem.rows; row += count, count = count % 40 + 1) {
    for (int panel = 0; panel < problem.panels; panel += 3) {
      MultiplyArgs args = problem.Args(parts);
      args.a += row * args.a_stride;
      args.out += row * args.out_stride;
      args.rows = std::min(count, problem.rows - row);
      args.panel_begin = panel;
      args.panel_end = std::min(panel + 3, problem.panels);
      GetParam().product->multiply(args);
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
  GetParam().product->multiply(args);
  for (size_t i = 0; i < plain.size(); ++i) ASSERT_FLOAT_EQ(added[i], plain[i] + 2.0f);
}

// A row that is not finite must not come out as ordinary numbers.
TEST_P(ProductTest, WhatIsNotFiniteReachesTheResult) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    Problem problem(GetParam(), 2, 70, 16);
    const Product& product = *GetParam().product;
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
  const Product& product = *GetParam().product;
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
  PackInt8ForBytes(rows.data(), inputs, panel.data());
  const float first = At<float>(panel.data() + kInt8GroupLevelBytes, 0);
  const float ninth = At<float>(panel.data() + 8 * kInt8GroupBytes + kInt8GroupLevelBytes, 0);
  EXPECT_LT(first, 4.0f / 112.0f);
  EXPECT_GT(ninth, 5 * first);
}

// Files hold weights as whole numbers times a scale; those must not be rounded a second time.
TEST(Int8FormatTest, WeightsOnAGridKeepTheirValues) {
  for (int most = 1; most <= 16; ++most) {
    std::vector<float> rows(kPanel * kInt8Group);
    std::mt19937 random(most);
    for (float& weight : rows) {
      weight = 0.0123f * static_cast<float>(std::uniform_int_distribution(-most, most)(random));
    }
    rows[0] = -0.0123f * static_cast<float>(most);
    std::vector<std::byte> panel(Int8PanelBytes(kInt8Group));
    PackInt8ForWords(rows.data(), kInt8Group, panel.data());
    for (int o = 0; o < kPanel; ++o) {
      for (int i = 0; i < kInt8Group; ++i) {
        const float scale = At<float>(panel.data() + kInt8GroupLevelBytes, o);
        const int level = At<int8_t>(panel.data(), (i / 2 * kPanel + o) * 2 + i % 2);
        ASSERT_NEAR(scale * static_cast<float>(level), rows[o * kInt8Group + i], 1e-7)
            << most << ", output " << o << ", input " << i;
      }
    }
  }
}

// Group by group: smooth; one value that stands out; two; three.
TEST(Int8FormatTest, ValuesThatStandOutDoNotCostTheOthersTheirPrecision) {
  constexpr int kInputs = 4 * kInt8Group;
  std::vector<float> x(kInputs);
  for (int i = 0; i < kInputs; ++i) x[i] = std::sin(static_cast<float>(i) + 0.5f);
  x[kInt8Group + 3] = 50.0f;
  x[2 * kInt8Group] = -50.0f;
  x[2 * kInt8Group + 31] = 500.0f;
  for (const int i : {1, 9, 30}) x[3 * kInt8Group + i] = 40.0f + static_cast<float>(i);
  for (const ProductCase& c : AllProducts()) {
    if (!c.is_int()) continue;
    std::vector<std::byte> row(c.product->row_bytes(kInputs));
    c.product->prepare(x.data(), kInputs, 0, kInputs, row.data());
    for (int i = 0; i < kInputs; ++i) {
      const float value = c.bytes() ? ByteActivation(row.data(), kInputs, i)
                                    : WordActivation(row.data(), kInputs, i);
      const int group = i / kInt8Group;
      const float largest_left = group < 3 ? 1.0f : 41.0f;  // two are taken out of a group
      const float bound = c.bytes() ? largest_left / 127.0f : 500.0f / 32767.0f;
      EXPECT_NEAR(value, x[i], 0.501f * bound) << c << ", " << i;
      if (c.bytes() && group < 3 && std::abs(x[i]) > 1.0f) {
        EXPECT_EQ(value, x[i]) << c;
      }
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
