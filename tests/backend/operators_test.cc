// The reference operators against values worked out by hand or in double.
#include "core/backend/reference/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace luna::backend::reference {
namespace {

using testing::FloatEq;
using testing::FloatNear;
using testing::Pointwise;

TEST(OperatorsTest, LayerNormCentersScalesAndShifts) {
  // mean 2, variance 1.25
  const std::vector<float> x = {0.5f, 1.5f, 2.5f, 3.5f}, weight = {1, 2, 3, 4},
                           bias = {1, 0, -1, 0};
  std::vector<float> out(4);
  LayerNorm(x, weight, bias, 0.0f, out);
  const float s = 1.0f / std::sqrt(1.25f);
  EXPECT_THAT(out, Pointwise(FloatNear(1e-6f), {1 - 1.5f * s, -1.0f * s, 1.5f * s - 1, 6.0f * s}));
  LayerNorm(x, weight, {}, 0.75f, out);  // variance + epsilon = 2
  const float t = 1.0f / std::sqrt(2.0f);
  EXPECT_THAT(out, Pointwise(FloatNear(1e-6f), {-1.5f * t, -t, 1.5f * t, 6.0f * t}));
}

TEST(OperatorsTest, RmsNormScalesByTheRootMeanSquare) {
  const std::vector<float> x = {1, 2, 2, 4}, weight = {1, 1, 2, 0.5f}, bias = {0, 1, 0, 0};
  std::vector<float> out(4);
  RmsNorm(x, weight, {}, 0.0f, out);  // mean square 6.25
  EXPECT_THAT(out, Pointwise(FloatEq(), std::vector<float>{0.4f, 0.8f, 1.6f, 0.8f}));
  RmsNorm(x, weight, bias, 2.75f, out);  // 9
  EXPECT_THAT(out, Pointwise(FloatNear(1e-6f), {1 / 3.0f, 1 + 2 / 3.0f, 4 / 3.0f, 2 / 3.0f}));
}

TEST(OperatorsTest, LinearTakesOneRowPerOutput) {
  const std::vector<float> x = {1, 2, 3};
  const std::vector<float> weight = {1, 0, 0, 0, 1, 1};  // [2, 3]
  std::vector<float> out(2);
  Linear(x, weight, {}, out);
  EXPECT_THAT(out, testing::ElementsAre(1, 5));
  const std::vector<float> bias = {0.5f, -1};
  Linear(x, weight, bias, out);
  EXPECT_THAT(out, testing::ElementsAre(1.5f, 4));
}

TEST(OperatorsTest, RotatePairsTheHalves) {
  std::vector<float> head = {1, 2, 3, 4};  // pairs (1, 3) and (2, 4)
  const float cosines[] = {0, 1}, sines[] = {1, 0};
  Rotate(head, cosines, sines);
  EXPECT_THAT(head, testing::ElementsAre(-3, 2, 1, 4));
}

TEST(OperatorsTest, ActivationsHaveTheirKnownValues) {
  EXPECT_NEAR(Activate(model::Activation::kSilu, 1.0f), 0.731059f, 1e-6);
  EXPECT_NEAR(Activate(model::Activation::kSilu, -2.0f), -0.238406f, 1e-6);
  EXPECT_NEAR(Activate(model::Activation::kGeluErf, 1.0f), 0.841345f, 1e-6);
  EXPECT_NEAR(Activate(model::Activation::kGeluTanh, 1.0f), 0.841192f, 1e-6);
  for (const auto activation :
       {model::Activation::kSilu, model::Activation::kGeluErf, model::Activation::kGeluTanh}) {
    EXPECT_EQ(Activate(activation, 0.0f), 0.0f);
    EXPECT_EQ(Activate(activation, 100.0f), 100.0f);
    EXPECT_NEAR(Activate(activation, -100.0f), 0.0f, 1e-6);
  }
}

TEST(OperatorsTest, AttendReadsThroughTheTableAndHonoursTheRange) {
  // Blocks of 2 tokens, 2 kv heads of 3: [K, V][head][slot][3].
  constexpr int kHeadDim = 3, kBlockTokens = 2, kBlocks = 4;
  constexpr int64_t kFloatBytes = sizeof(float);
  const int64_t head_stride = kBlockTokens * kHeadDim, values_offset = 2 * head_stride;
  std::vector<float> pool(kBlocks * 2 * values_offset);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (float& value : pool) value = normal(random);
  const KvLayerView view{.data = reinterpret_cast<std::byte*>(pool.data()),
                         .block_stride = 2 * values_offset * kFloatBytes,
                         .head_stride = head_stride * kFloatBytes,
                         .values_offset = values_offset * kFloatBytes,
                         .group = 0};
  const std::vector<int32_t> table = {-1, 3, 0};  // positions 0 and 1 are gone
  const std::vector<float> q = {0.3f, -1.2f, 0.7f};
  std::vector<float> scores(6), out(kHeadDim);
  Attend(q, view, /*kv_head=*/1, table, kBlockTokens, /*first=*/3, /*last=*/4, 0.5f, scores, out);

  const float* k3 =
      pool.data() + 3 * 2 * values_offset + head_stride + kHeadDim;  // block 3, slot 1
  const float* k4 = pool.data() + head_stride;                       // block 0, slot 0
  const auto score = [&](const float* k) {
    return 0.5 * (double{q[0]} * k[0] + double{q[1]} * k[1] + double{q[2]} * k[2]);
  };
  const double w3 = std::exp(score(k3)), w4 = std::exp(score(k4));
  for (int d = 0; d < kHeadDim; ++d) {
    const double expected = (w3 * k3[values_offset + d] + w4 * k4[values_offset + d]) / (w3 + w4);
    EXPECT_NEAR(out[d], expected, 1e-6) << d;
  }
}

}  // namespace
}  // namespace luna::backend::reference
