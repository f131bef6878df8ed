#include "core/backend/rope_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace luna::backend {
namespace {

model::ModelConfig Config(int head_dim, std::vector<model::LayerConfig> layers) {
  model::ModelConfig config;
  config.head_dim = head_dim;
  config.layers = std::move(layers);
  return config;
}

TEST(RopeTableTest, FrequenciesFallWithThePair) {
  const auto config = Config(8, {{.rope_theta = 10000.0f}});
  EXPECT_THAT(
      RopeFrequencies(config, config.layers[0]),
      testing::Pointwise(testing::FloatEq(), std::vector<float>{1.0f, 0.1f, 0.01f, 0.001f}));
}

TEST(RopeTableTest, LinearFactorAndFileFactorsDivide) {
  auto config = Config(4, {{.rope_theta = 10000.0f, .rope_linear_factor = 8.0f}});
  config.rope_freq_factors = {1.0f, 4.0f};
  EXPECT_THAT(RopeFrequencies(config, config.layers[0]),
              testing::Pointwise(testing::FloatEq(), std::vector<float>{0.125f, 0.01f / 32}));
}

// Wavelengths 2 pi / f against an original context of 8192: under 2048 kept, over 8192 divided
// by 8.
TEST(RopeTableTest, Llama3ScalingKeepsShortWavesAndStretchesLongOnes) {
  auto config = Config(128, {{.rope_theta = 500000.0f}});
  config.rope_scaling = {
      .factor = 8.0f, .low_freq_factor = 1.0f, .high_freq_factor = 4.0f, .original_context = 8192};
  const std::vector<float> scaled = RopeFrequencies(config, config.layers[0]);
  int kept = 0, between = 0, stretched = 0;
  for (int i = 0; i < 64; ++i) {
    const double plain = std::pow(500000.0, -i / 64.0), wave = 2 * M_PI / plain;
    if (wave < 2048) {
      EXPECT_FLOAT_EQ(scaled[i], plain);
      ++kept;
    } else if (wave > 8192) {
      EXPECT_FLOAT_EQ(scaled[i], plain / 8);
      ++stretched;
    } else {
      EXPECT_LT(scaled[i], plain);
      EXPECT_GT(scaled[i], plain / 8);
      ++between;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(between, 0);
  EXPECT_GT(stretched, 0);
}

TEST(RopeTableTest, AnglesArePositionTimesFrequencyPerLayer) {
  const auto config = Config(4, {{.rope_theta = 10000.0f}, {.rope_theta = 100.0f}});
  RopeTable table(config, 3);
  const std::vector<int32_t> positions = {5, 0, 1000};
  table.Fill(positions);
  for (int row = 0; row < 3; ++row) {
    EXPECT_FLOAT_EQ(table.cosines(0, row)[1], std::cos(positions[row] * 0.01f));
    EXPECT_FLOAT_EQ(table.sines(0, row)[1], std::sin(positions[row] * 0.01f));
    EXPECT_FLOAT_EQ(table.cosines(1, row)[1], std::cos(positions[row] * 0.1f));
    EXPECT_FLOAT_EQ(table.sines(1, row)[0], std::sin(static_cast<float>(positions[row])));
  }
}

}  // namespace
}  // namespace luna::backend
