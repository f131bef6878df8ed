// The real models, where `./dev model NAME` fetched them.
#include <cmath>
#include <filesystem>
#include <map>

#include "core/model/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Null, with the test skipped, where the model is not there.
std::shared_ptr<const Model> LoadFetched(const std::string& name) {
  const std::string path = "models/" + name;
  if (!std::filesystem::exists(path)) return nullptr;
  auto model = LoadModel(path);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : nullptr;
}

#define LUNA_LOAD_OR_SKIP(model, name)                          \
  const std::shared_ptr<const Model> model = LoadFetched(name); \
  if (testing::Test::HasFailure()) return;                      \
  if (model == nullptr) GTEST_SKIP() << "models/" name " is not there: ./dev model " name

TEST(RealFilesTest, SmolLm2) {
  LUNA_LOAD_OR_SKIP(model, "smollm2-135m");
  const ModelConfig& config = model->config;
  EXPECT_EQ(config.name, "smollm2-135m");
  EXPECT_EQ(config.architecture, Architecture::kLlama);
  EXPECT_EQ(config.num_layers, 30);
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.num_heads, 9);
  EXPECT_EQ(config.num_kv_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.intermediate_size, 1536);
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.context_length, 8192);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_EQ(config.layers[0].rope_theta, 100000.0f);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(model->source, "GGUF v3, Q4_1 x 210, F32 x 61, Q8_0 x 1");
  EXPECT_EQ(model->weights.token_embedding.dtype, DType::kQ8_0);
  const text::TokenizerData& data = model->tokenizer;
  EXPECT_EQ(data.pre_tokenizer, "smollm");
  EXPECT_FALSE(data.add_bos);
  ASSERT_FALSE(data.end_ids.empty());
  EXPECT_EQ(data.end_ids[0], 2);
  EXPECT_EQ(data.tokens[2], "<|im_end|>");
  EXPECT_EQ(data.merges.size(), 48900u);
  EXPECT_THAT(data.chat_template, HasSubstr("<|im_start|>"));
}

TEST(RealFilesTest, Gemma3) {
  LUNA_LOAD_OR_SKIP(model, "gemma3-270m");
  const ModelConfig& config = model->config;
  EXPECT_EQ(config.architecture, Architecture::kGemma3);
  EXPECT_EQ(config.num_layers, 18);
  EXPECT_EQ(config.hidden_size, 640);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 1);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.intermediate_size, 2048);
  EXPECT_EQ(config.vocab_size, 262144);
  EXPECT_EQ(config.context_length, 32768);
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_FLOAT_EQ(config.embedding_scale, std::sqrt(640.0f));
  EXPECT_FLOAT_EQ(config.attention_scale, 1.0f / 16.0f);
  for (int i = 0; i < 18; ++i) {
    const bool full = i % 6 == 5;
    EXPECT_EQ(config.layers[i].sliding_window, full ? 0 : 512) << i;
    EXPECT_EQ(config.layers[i].rope_theta, full ? 1e6f : 1e4f) << i;
  }
  EXPECT_EQ(model->source, "GGUF v3, F32 x 109, Q5_0 x 81, Q4_K x 27, Q8_0 x 10, Q6_K x 9");
  const text::TokenizerData& data = model->tokenizer;
  EXPECT_EQ(data.kind, text::TokenizerKind::kSentencePieceBpe);
  EXPECT_TRUE(data.add_bos);
  EXPECT_FALSE(data.add_space_prefix);
  EXPECT_EQ(data.bos, 2);
  ASSERT_FALSE(data.end_ids.empty());
  EXPECT_EQ(data.end_ids[0], 1);
}

}  // namespace
}  // namespace luna::model
