#include "core/model/config.h"

#include <cmath>
#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::model {
namespace {

using testing::HasSubstr;

ModelConfig SmallConfig() {
  ModelConfig config;
  config.architecture = Architecture::kLlama;
  config.num_layers = 2;
  config.hidden_size = 8;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 4;
  config.intermediate_size = 16;
  config.vocab_size = 10;
  config.context_length = 32;
  config.attention_scale = 0.5f;
  config.layers.resize(2);
  return config;
}

TEST(ModelConfigTest, SoundConfigIsValid) { EXPECT_TRUE(SmallConfig().Validate().ok()); }

TEST(ModelConfigTest, RefusesWhatCannotBe) {
  const struct {
    std::function<void(ModelConfig&)> break_it;
    const char* says;
  } cases[] = {
      {[](auto& c) { c.num_layers = 0; }, "number of layers is 0"},
      {[](auto& c) { c.num_layers = 3; }, "2 layers are described; the model has 3"},
      {[](auto& c) { c.num_layers = 1 << 30; }, "number of layers is 1073741824"},
      {[](auto& c) { c.hidden_size = -8; }, "hidden size is -8"},
      {[](auto& c) { c.num_heads = 0; }, "number of heads is 0"},
      {[](auto& c) { c.num_kv_heads = 3; }, "number of KV heads is 3"},
      {[](auto& c) { c.num_heads = 5, c.num_kv_heads = 2; }, "not a multiple of the 2 KV heads"},
      {[](auto& c) { c.head_dim = 5; }, "head size is 5"},
      {[](auto& c) { c.head_dim = 1 << 30; }, "head size is 1073741824"},
      {[](auto& c) { c.intermediate_size = 0; }, "intermediate size is 0"},
      {[](auto& c) { c.vocab_size = 1 << 30; }, "vocabulary size is 1073741824"},
      {[](auto& c) { c.context_length = 0; }, "context length is 0"},
      {[](auto& c) { c.norm_epsilon = NAN; }, "norm epsilon is nan"},
      {[](auto& c) { c.embedding_scale = INFINITY; }, "embedding scale is inf"},
      {[](auto& c) { c.attention_scale = 0; }, "attention scale is 0"},
      {[](auto& c) { c.rope_scaling.factor = -1; }, "RoPE scaling factor is -1"},
      {[](auto& c) {
         c.rope_scaling = {8, 4, 4, 64};
       },
       "high_freq_factor is 4"},
      {[](auto& c) {
         c.rope_scaling = {8, 1, 4, 0};
       },
       "RoPE original context is 0"},
      {[](auto& c) {
         c.rope_freq_factors = {1, 1, 1};
       },
       "3 RoPE factors for a head size of 4"},
      {[](auto& c) {
         c.rope_freq_factors = {1, 0};
       },
       "RoPE frequency factor is 0"},
      {[](auto& c) { c.layers[1].sliding_window = -1; }, "sliding window is -1"},
      {[](auto& c) { c.layers[1].rope_theta = 0; }, "RoPE base is 0"},
      {[](auto& c) { c.layers[1].rope_linear_factor = NAN; }, "RoPE linear factor is nan"},
  };
  for (const auto& c : cases) {
    ModelConfig config = SmallConfig();
    c.break_it(config);
    const absl::Status status = config.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.says;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.says));
  }
}

TEST(ModelConfigTest, LearnedPositionsTakeAnOddHead) {
  ModelConfig config = SmallConfig();
  config.head_dim = 3;
  config.learned_positions = true;
  EXPECT_TRUE(config.Validate().ok());
}

}  // namespace
}  // namespace luna::model
