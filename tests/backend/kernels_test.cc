// Each kernel of each code path against the reference operator, in odd sizes.
#include "core/backend/cpu/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/backend/reference/operators.h"
#include "tests/backend/random_values.h"

namespace luna::backend::cpu {
namespace {

class KernelsTest : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels_ = *GetParam();
};

TEST_P(KernelsTest, NormsEqualTheReference) {
  for (const int size : {1, 3, 16, 36, 100, 577}) {
    const std::vector<float> x = Random(size, 4), weight = Random(size, 5), bias = Random(size, 6);
    std::vector<float> out(size), expected(size);
    kernels_.layer_norm(x.data(), weight.data(), bias.data(), 1e-5f, size, out.data());
    reference::LayerNorm(x, weight, bias, 1e-5f, expected);
    EXPECT_THAT(out, testing::Pointwise(testing::FloatNear(3e-6f), expected)) << size;
    kernels_.rms_norm(x.data(), weight.data(), nullptr, 1e-6f, size, out.data());
    reference::RmsNorm(x, weight, {}, 1e-6f, expected);
    EXPECT_THAT(out, testing::Pointwise(testing::FloatNear(3e-6f), expected)) << size;
  }
}

TEST_P(KernelsTest, RotateEqualsTheReference) {
  for (const int half : {1, 4, 10, 32, 128}) {
    std::vector<float> head = Random(2 * half, 7), expected = head;
    const std::vector<float> cosines = Random(half, 8), sines = Random(half, 9);
    kernels_.rotate(head.data(), cosines.data(), sines.data(), half);
    reference::Rotate(expected, cosines.data(), sines.data());
    EXPECT_THAT(head, testing::Pointwise(testing::FloatNear(1e-6f), expected)) << half;
  }
}

TEST_P(KernelsTest, ActivationsEqualTheReferenceOverTheirRange) {
  std::vector<float> x;
  for (float v = -110.0f; v <= 110.0f; v += 0.03125f) x.push_back(v);
  x.resize(PadToPanel(x.size()));
  std::vector<float> out(x.size());
  for (const auto activation :
       {model::Activation::kSilu, model::Activation::kGeluErf, model::Activation::kGeluTanh}) {
    kernels_.activate(activation, x.data(), static_cast<int>(x.size()), out.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const float expected = reference::Activate(activation, x[i]);
      ASSERT_NEAR(out[i], expected, 1e-6 + 1e-6 * std::abs(expected)) << x[i];
    }
  }
}

TEST_P(KernelsTest, GatedActivationTakesPanelsInTurn) {
  const std::vector<float> x = Random(3 * 2 * kPanel, 10);
  std::vector<float> out(3 * kPanel);
  kernels_.activate_gated(model::Activation::kSilu, x.data(), 3, out.data());
  for (int p = 0; p < 3; ++p) {
    for (int i = 0; i < kPanel; ++i) {
      const float* pair = x.data() + p * 2 * kPanel;
      EXPECT_NEAR(out[p * kPanel + i],
                  reference::Activate(model::Activation::kSilu, pair[i]) * pair[kPanel + i], 1e-5);
    }
  }
}

TEST_P(KernelsTest, ActivationKeepsNanAndTheSignOfInfinity) {
  std::vector<float> x(kPanel, std::numeric_limits<float>::quiet_NaN()), out(kPanel);
  x[1] = std::numeric_limits<float>::infinity();
  kernels_.activate(model::Activation::kSilu, x.data(), kPanel, out.data());
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], std::numeric_limits<float>::infinity());
}

INSTANTIATE_TEST_SUITE_P(Paths, KernelsTest,
                         testing::ValuesIn(AvailableKernels().begin(), AvailableKernels().end()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace luna::backend::cpu
