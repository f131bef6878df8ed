#include <cmath>
#include <numeric>

#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::model {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Model> Load(std::string_view name) {
  auto model = LoadModel(name);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments MomentsOf(const Tensor& tensor) {
  const std::vector<float> values = Dequantize(tensor);
  const double n = static_cast<double>(values.size());
  Moments m;
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  for (const float v : values) m.deviation += (v - m.mean) * (v - m.mean) / n;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST(DummyModelTest, LunaHasItsShape) {
  const auto model = Load("dummy:luna");
  const ModelConfig& config = model->config;
  EXPECT_TRUE(config.Validate().ok());
  EXPECT_EQ(config.architecture, Architecture::kGpt2);
  EXPECT_EQ(config.num_layers * 2 * config.kv_size() * 4, 32768);  // bytes of KV a token in f32
  EXPECT_EQ(config.vocab_size, 4096);
  EXPECT_EQ(config.context_length, 512);
  EXPECT_EQ(model->weights_bytes, int64_t{27579392} * 4);
  EXPECT_EQ(model->weights.head.data, model->weights.token_embedding.data);
  EXPECT_EQ(model->weights.position_embedding.rows, 512);
  EXPECT_TRUE(model->weights.layers[7].down_bias);
}

TEST(DummyModelTest, SmolLm2HasItsShape) {
  const auto model = Load("dummy:smollm2-135m");
  const ModelConfig& config = model->config;
  EXPECT_TRUE(config.Validate().ok());
  EXPECT_EQ(config.architecture, Architecture::kLlama);
  EXPECT_EQ(config.num_layers * 2 * config.kv_size(), 11520);  // KV values a token
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.context_length, 8192);
  EXPECT_EQ(config.layers[29].rope_theta, 100000.0f);
  EXPECT_EQ(model->weights.layers[0].gate.rows, 1536);
  EXPECT_FALSE(model->weights.layers[0].q_bias);
}

TEST(DummyModelTest, WeightsAreTheSameEveryTimeAndSpread) {
  const auto first = Load("dummy:luna");
  const auto second = Load("dummy:luna");
  EXPECT_EQ(first->digest, second->digest);
  EXPECT_EQ(first->digest.size(), 32u);
  const Weights& w = first->weights;
  const Moments embedding = MomentsOf(w.token_embedding);
  EXPECT_NEAR(embedding.mean, 0, 1e-3);
  EXPECT_NEAR(embedding.deviation, 0.08, 1e-3);
  const Moments q = MomentsOf(w.layers[3].q);
  EXPECT_NEAR(q.mean, 0, 1e-3);
  EXPECT_NEAR(q.deviation, 1 / std::sqrt(512.0), 1e-3);
  EXPECT_NEAR(MomentsOf(w.final_norm).mean, 1, 1e-2);
  // Tensors do not repeat one another.
  EXPECT_NE(Dequantize(w.layers[0].q), Dequantize(w.layers[1].q));
  EXPECT_NE(Dequantize(w.layers[0].q), Dequantize(w.layers[0].k));
}

TEST(DummyModelTest, TokenizerTakesAnyTextByteByByte) {
  const auto model = Load("dummy:luna");
  auto tokenizer = text::Tokenizer::Create(model->tokenizer);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string text = "Once 옛날에 \xF0\x9F\x8C\x99\n\t\x01.";
  const auto ids = (*tokenizer)->Encode(text);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(ids->size(), text.size());
  EXPECT_EQ((*tokenizer)->Decode(*ids), text);
  EXPECT_EQ((*tokenizer)->TokenBytes(300), " w300");
  EXPECT_TRUE((*tokenizer)->IsEnd(4095));
  EXPECT_TRUE((*tokenizer)->IsControl(4095));
}

TEST(DummyModelTest, UnknownShapeNamesTheOnesThereAre) {
  const auto model = LoadModel("dummy:huge");
  EXPECT_EQ(model.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("luna and smollm2-135m"));
}

}  // namespace
}  // namespace luna::model
