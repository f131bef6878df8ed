#include "core/model/hf_config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::model {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json Llama() {
  return json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32,
    "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 128,
    "vocab_size": 300, "rope_theta": 500000.0, "hidden_act": "silu",
    "tie_word_embeddings": false})");
}

json Gemma3() {
  return json::parse(R"({
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 36,
    "intermediate_size": 48, "num_hidden_layers": 7, "num_attention_heads": 4,
    "num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 128, "vocab_size": 300, "query_pre_attn_scalar": 64,
    "sliding_window": 8})");
}

json With(json object, const json& changes) {
  object.update(changes);
  return object;
}

ModelConfig Parse(const json& object) {
  auto config = ParseHfConfig(object.dump());
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : ModelConfig{};
}

std::vector<int> Windows(const ModelConfig& config) {
  std::vector<int> windows;
  for (const LayerConfig& layer : config.layers) windows.push_back(layer.sliding_window);
  return windows;
}

TEST(HfConfigTest, Gpt2) {
  const ModelConfig config = Parse(json::parse(R"({
    "architectures": ["GPT2LMHeadModel"], "n_embd": 32, "n_layer": 2, "n_head": 4,
    "n_positions": 64, "n_inner": null, "vocab_size": 300, "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5})"));
  EXPECT_EQ(config.architecture, Architecture::kGpt2);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.intermediate_size, 128);
  EXPECT_EQ(config.context_length, 64);
  EXPECT_EQ(config.norm, NormKind::kLayerNorm);
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_TRUE(config.learned_positions);
  EXPECT_TRUE(config.tied_head);
  EXPECT_FALSE(config.gated_ffn);
  EXPECT_FLOAT_EQ(config.attention_scale, 1.0f / std::sqrt(8.0f));
}

TEST(HfConfigTest, LlamaWithOldAndNewRopeKeys) {
  const json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.5},
                        {"high_freq_factor", 4.5},
                        {"rope_type", "llama3"},
                        {"original_max_position_embeddings", 64}};
  json old_keys = With(Llama(), {{"rope_scaling", scaling}});
  json new_keys = Llama();
  new_keys.erase("rope_theta");
  new_keys["rope_parameters"] = With(scaling, {{"rope_theta", 500000.0}});
  for (const json& keys : {old_keys, new_keys}) {
    const ModelConfig config = Parse(keys);
    EXPECT_EQ(config.architecture, Architecture::kLlama);
    EXPECT_EQ(config.head_dim, 8);
    EXPECT_EQ(config.num_kv_heads, 2);
    EXPECT_EQ(config.norm, NormKind::kRmsNorm);
    EXPECT_TRUE(config.gated_ffn);
    EXPECT_FALSE(config.tied_head);
    EXPECT_EQ(config.layers[1].rope_theta, 500000.0f);
    EXPECT_EQ(config.rope_scaling.factor, 8.0f);
    EXPECT_EQ(config.rope_scaling.low_freq_factor, 1.5f);
    EXPECT_EQ(config.rope_scaling.high_freq_factor, 4.5f);
    EXPECT_EQ(config.rope_scaling.original_context, 64);
  }
}

TEST(HfConfigTest, LinearRopeScalingByItsOldTypeKey) {
  const ModelConfig config =
      Parse(With(Llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}));
  EXPECT_EQ(config.layers[0].rope_linear_factor, 4.0f);
  EXPECT_EQ(config.rope_scaling.factor, 1.0f);
}

TEST(HfConfigTest, HeadsOfTheirOwnSize) {
  const ModelConfig config = Parse(With(Llama(), {{"head_dim", 16}}));
  EXPECT_EQ(config.q_size(), 64);
  EXPECT_EQ(config.kv_size(), 32);
  EXPECT_FLOAT_EQ(config.attention_scale, 0.25f);
}

TEST(HfConfigTest, MistralWithoutAWindow) {
  const json mistral = With(Llama(), {{"architectures", {"MistralForCausalLM"}}});
  EXPECT_EQ(Parse(With(mistral, {{"sliding_window", nullptr}})).architecture, Architecture::kLlama);
  EXPECT_THAT(Windows(Parse(With(mistral, {{"sliding_window", 128}}))), ElementsAre(0, 0));
}

TEST(HfConfigTest, Qwen2) {
  const ModelConfig config =
      Parse(With(Llama(), {{"architectures", {"Qwen2ForCausalLM"}},
                           {"use_sliding_window", false},
                           {"sliding_window", 64},
                           {"layer_types", {"full_attention", "full_attention"}}}));
  EXPECT_EQ(config.architecture, Architecture::kQwen2);
  EXPECT_THAT(Windows(config), ElementsAre(0, 0));
}

TEST(HfConfigTest, Gemma3WithOldKeys) {
  const ModelConfig config =
      Parse(With(Gemma3(), {{"rope_theta", 2e6},
                            {"rope_local_base_freq", 2e4},
                            {"sliding_window_pattern", 3},
                            {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}));
  EXPECT_EQ(config.architecture, Architecture::kGemma3);
  EXPECT_THAT(Windows(config), ElementsAre(8, 8, 0, 8, 8, 0, 8));
  EXPECT_EQ(config.layers[0].rope_theta, 2e4f);
  EXPECT_EQ(config.layers[0].rope_linear_factor, 1.0f);
  EXPECT_EQ(config.layers[2].rope_theta, 2e6f);
  EXPECT_EQ(config.layers[2].rope_linear_factor, 8.0f);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_FLOAT_EQ(config.attention_scale, 0.125f);
  EXPECT_FLOAT_EQ(config.embedding_scale, 6.0f);
}

TEST(HfConfigTest, Gemma3WithNewKeys) {
  const ModelConfig config = Parse(
      With(Gemma3(),
           {{"layer_types",
             {"sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
              "sliding_attention", "sliding_attention", "full_attention"}},
            {"rope_parameters",
             {{"full_attention", {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 3e6}}},
              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}}}}));
  EXPECT_THAT(Windows(config), ElementsAre(8, 0, 8, 8, 8, 8, 0));
  EXPECT_EQ(config.layers[0].rope_theta, 3e4f);
  EXPECT_EQ(config.layers[1].rope_theta, 3e6f);
  EXPECT_EQ(config.layers[1].rope_linear_factor, 2.0f);
}

TEST(HfConfigTest, Gemma3Defaults) {
  const ModelConfig config = Parse(Gemma3());
  EXPECT_THAT(Windows(config), ElementsAre(8, 8, 8, 8, 8, 0, 8));
  EXPECT_EQ(config.layers[0].rope_theta, 1e4f);
  EXPECT_EQ(config.layers[5].rope_theta, 1e6f);
}

TEST(HfConfigTest, RefusesWhatIsNotSupported) {
  const json mistral = With(Llama(), {{"architectures", {"MistralForCausalLM"}}});
  const json qwen2 = With(Llama(), {{"architectures", {"Qwen2ForCausalLM"}}});
  const struct {
    json config;
    const char* says;
  } cases[] = {
      {With(Llama(), {{"architectures", {"MixtralForCausalLM"}}}), "[\"MixtralForCausalLM\"]"},
      {With(Llama(), {{"architectures", nullptr}, {"model_type", "bert"}}), "\"bert\""},
      {With(Llama(), {{"hidden_act", "relu"}}), "\"hidden_act\" is \"relu\""},
      {With(Llama(), {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}}), "\"yarn\""},
      {With(Llama(), {{"rope_scaling", {{"type", "dynamic"}, {"factor", 4}}}}), "\"dynamic\""},
      {With(Llama(), {{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}), "partial_rotary"},
      {With(Llama(), {{"quantization_config", {{"bits", 4}}}}), "quantization_config"},
      {With(Llama(), {{"num_local_experts", 8}}), "\"num_local_experts\" is 8"},
      {With(Llama(), {{"mlp_bias", true}}), "\"mlp_bias\" is true"},
      {With(mistral, {{"sliding_window", 64}}), "\"sliding_window\" is 64"},
      {With(mistral, {{"max_position_embeddings", 8192}}), "\"sliding_window\" is absent"},
      {With(qwen2, {{"use_sliding_window", true}}), "use_sliding_window"},
      {With(qwen2, {{"layer_types", {"full_attention", "sliding_attention"}}}), "layer_types"},
      {With(Gemma3(), {{"attn_logit_softcapping", 50.0}}), "\"attn_logit_softcapping\" is 50.0"},
      {With(Gemma3(), {{"final_logit_softcapping", 30.0}}), "final_logit_softcapping"},
      {With(Gemma3(), {{"use_bidirectional_attention", true}}), "use_bidirectional_attention"},
      {With(Gemma3(), {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}}}), "llama3"},
      {json::parse(R"({"architectures":["GPT2LMHeadModel"],"activation_function":"relu"})"),
       "\"relu\""},
      {json::parse(R"({"architectures":["GPT2LMHeadModel"],
                       "scale_attn_by_inverse_layer_idx":true})"),
       "scale_attn_by_inverse_layer_idx"},
  };
  for (const auto& c : cases) {
    const auto config = ParseHfConfig(c.config.dump());
    EXPECT_EQ(config.status().code(), absl::StatusCode::kUnimplemented) << c.says;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(c.says));
    EXPECT_THAT(std::string(config.status().message()), HasSubstr("config.json"));
  }
}

TEST(HfConfigTest, RefusesWhatIsWrong) {
  json no_width = Llama();
  no_width.erase("hidden_size");
  const struct {
    std::string text;
    const char* says;
  } cases[] = {
      {"{", "not valid JSON"},
      {"[]", "not a JSON object"},
      {no_width.dump(), "\"hidden_size\" is missing"},
      {With(Llama(), {{"hidden_size", "wide"}}).dump(), "\"hidden_size\" is \"wide\""},
      {With(Llama(), {{"hidden_size", 4294967328ull}}).dump(), "\"hidden_size\" is 4294967328"},
      {With(Llama(), {{"hidden_size", ~0ull}}).dump(), "\"hidden_size\" is 18446744073709551615"},
      {With(Llama(), {{"num_hidden_layers", -1}}).dump(), "number of layers is -1"},
      {With(Llama(), {{"num_hidden_layers", 2000000000}}).dump(), "number of layers is 2000000000"},
      {With(Llama(), {{"num_attention_heads", 0}}).dump(), "number of heads is 0"},
      {With(Llama(), {{"num_attention_heads", 5}}).dump(), "\"hidden_size\" is 32"},
      {With(Llama(), {{"num_key_value_heads", 3}}).dump(), "not a multiple of the 3 KV heads"},
      {With(Llama(), {{"rms_norm_eps", -1}}).dump(), "norm epsilon is -1"},
      {With(Llama(), {{"rope_theta", 0}}).dump(), "RoPE base is 0"},
      {With(Llama(), {{"rope_scaling", 3}}).dump(), "\"rope_scaling\" is 3"},
      {With(Llama(), {{"tie_word_embeddings", 1}}).dump(), "true or false"},
      {With(Llama(), {{"architectures", json::array()}}).dump(), "it must list one name"},
      {With(Gemma3(), {{"sliding_window", 0}}).dump(), "\"sliding_window\" is 0"},
      {With(Gemma3(), {{"sliding_window_pattern", 0}}).dump(), "\"sliding_window_pattern\" is 0"},
      {With(Gemma3(), {{"layer_types", {"full_attention"}}}).dump(), "it must list the 7 layers"},
      {With(Gemma3(), {{"query_pre_attn_scalar", 0}}).dump(), "query_pre_attn_scalar"},
      {R"({"architectures":["GPT2LMHeadModel"],"n_embd":30,"n_head":4})", "a multiple of n_head 4"},
  };
  for (const auto& c : cases) {
    const auto config = ParseHfConfig(c.text);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << c.says;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace luna::model
