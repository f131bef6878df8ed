#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/loaders.h"
#include "core/model/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/model_files.h"

namespace luna::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Metadata of a model of width 32, 2 heads of 16 (one for KV), inner 64, one layer, vocabulary 6.
GgufWriter Metadata(const std::string& architecture) {
  GgufWriter writer;
  const std::string a = architecture + ".";
  writer.String("general.architecture", architecture)
      .U32(a + "block_count", 1)
      .U32(a + "embedding_length", 32)
      .U32(a + "feed_forward_length", 64)
      .U32(a + "attention.head_count", 2)
      .U32(a + "context_length", 24);
  return writer;
}

GgufWriter& AddByteLevelTokenizer(GgufWriter& writer, const std::string& pre) {
  return writer.String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", pre)
      .Strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_start|>", "<|im_end|>", "x"})
      .Ints("tokenizer.ggml.token_type", {1, 1, 1, 3, 3, 4})
      .Strings("tokenizer.ggml.merges", {"a b"})
      .U32("tokenizer.ggml.bos_token_id", 3)
      .U32("tokenizer.ggml.eos_token_id", 4)
      .U32("tokenizer.ggml.eot_token_id", 3)
      .U32("tokenizer.ggml.padding_token_id", 4)
      .String("tokenizer.chat_template", "{{ messages }}");
}

GgufWriter& AddSentencePiece(GgufWriter& writer) {
  return writer.String("tokenizer.ggml.model", "llama")
      .Strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0x41>", "a", "b"})
      .Ints("tokenizer.ggml.token_type", {2, 3, 3, 6, 1, 1})
      .Floats("tokenizer.ggml.scores", {0, 0, 0, 0, -1.5f, -2})
      .U32("tokenizer.ggml.unknown_token_id", 0)
      .U32("tokenizer.ggml.bos_token_id", 1)
      .U32("tokenizer.ggml.eos_token_id", 2);
}

void AddGatedLayer(GgufWriter& writer) {
  writer.TensorF32("token_embd.weight", {32, 6}, 100)
      .TensorF32("output_norm.weight", {32}, 1)
      .TensorF32("blk.0.attn_norm.weight", {32}, 2)
      .TensorF32("blk.0.ffn_norm.weight", {32}, 3)
      .TensorF32("blk.0.attn_q.weight", {32, 32})
      .TensorF32("blk.0.attn_k.weight", {32, 16})
      .TensorF32("blk.0.attn_v.weight", {32, 16})
      .TensorF32("blk.0.attn_output.weight", {32, 32})
      .TensorF32("blk.0.ffn_gate.weight", {32, 64})
      .TensorF32("blk.0.ffn_up.weight", {32, 64})
      .TensorF32("blk.0.ffn_down.weight", {64, 32});
}

GgufWriter Llama() {
  GgufWriter writer = Metadata("llama");
  writer.U32("llama.attention.head_count_kv", 1)
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .F32("llama.rope.freq_base", 100000.0f)
      .U32("llama.rope.dimension_count", 16);
  AddByteLevelTokenizer(writer, "smollm");
  AddGatedLayer(writer);
  return writer;
}

absl::StatusOr<std::shared_ptr<const Model>> Load(const std::string& file) {
  TempDir dir;
  return LoadModel(dir.Write("tiny.gguf", file));
}

TEST(GgufLoaderTest, LlamaConfigAndTokenizer) {
  const auto model = Load(Llama().Build());
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelConfig& config = (*model)->config;
  EXPECT_EQ(config.architecture, Architecture::kLlama);
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.num_kv_heads, 1);
  EXPECT_EQ(config.vocab_size, 6);
  EXPECT_EQ(config.context_length, 24);
  EXPECT_EQ(config.layers[0].rope_theta, 100000.0f);
  EXPECT_FLOAT_EQ(config.attention_scale, 0.25f);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ((*model)->source, "GGUF v3, F32 x 11");
  const text::TokenizerData& data = (*model)->tokenizer;
  EXPECT_EQ(data.kind, text::TokenizerKind::kByteLevelBpe);
  EXPECT_EQ(data.pre_tokenizer, "smollm");
  EXPECT_THAT(data.tokens, ElementsAre("a", "b", "ab", "<|im_start|>", "<|im_end|>", "x"));
  EXPECT_EQ(data.types[5], text::TokenType::kUserDefined);
  EXPECT_THAT(data.merges, ElementsAre(std::pair<std::string, std::string>("a", "b")));
  EXPECT_THAT(data.end_ids, ElementsAre(4, 3));
  EXPECT_EQ(data.bos, 3);
  EXPECT_FALSE(data.add_bos);
  EXPECT_FALSE(data.add_space_prefix);
  EXPECT_EQ(data.chat_template, "{{ messages }}");
}

TEST(GgufLoaderTest, LlamaRowsOfQAndKComeBackInHalves) {
  const auto model = Load(Llama().Build());
  ASSERT_TRUE(model.ok()) << model.status();
  const LayerWeights& layer = (*model)->weights.layers[0];
  // Row r of the file begins with 32 r. Pairs (2i, 2i + 1) become (i, i + 8).
  const auto first_of_rows = [](const Tensor& tensor) {
    std::vector<int> rows;
    for (int64_t r = 0; r < tensor.rows; ++r) {
      float value;
      DequantizeRow(tensor.dtype, tensor.row(r), 1, &value);
      rows.push_back(static_cast<int>(value) / 32);
    }
    return rows;
  };
  EXPECT_THAT(first_of_rows(layer.k),
              ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
  EXPECT_EQ(first_of_rows(layer.q)[1], 2);
  EXPECT_EQ(first_of_rows(layer.q)[16], 16);
  EXPECT_EQ(first_of_rows(layer.q)[17], 18);
  EXPECT_EQ(first_of_rows(layer.q)[24], 17);
  EXPECT_EQ(first_of_rows(layer.v)[1], 1);
}

TEST(GgufLoaderTest, QuantizedRowsAreMovedWhole) {
  GgufWriter writer = Metadata("llama");
  writer.U32("llama.attention.head_count_kv", 1);
  AddByteLevelTokenizer(writer, "smollm");
  std::string blocks;  // row r: every byte r
  for (int r = 0; r < 16; ++r) blocks += std::string(34, static_cast<char>(r));
  writer.TensorF32("token_embd.weight", {32, 6})
      .TensorF32("output_norm.weight", {32})
      .TensorF32("blk.0.attn_norm.weight", {32})
      .TensorF32("blk.0.ffn_norm.weight", {32})
      .Tensor("blk.0.attn_q.weight", {32, 32}, kGgmlQ8_0, std::string(34 * 32, '\1'))
      .Tensor("blk.0.attn_k.weight", {32, 16}, kGgmlQ8_0, blocks)
      .TensorF32("blk.0.attn_v.weight", {32, 16})
      .TensorF32("blk.0.attn_output.weight", {32, 32})
      .TensorF32("blk.0.ffn_gate.weight", {32, 64})
      .TensorF32("blk.0.ffn_up.weight", {32, 64})
      .TensorF32("blk.0.ffn_down.weight", {64, 32})
      .TensorF32("output.weight", {32, 6}, 500)
      .TensorF32("rope_freqs.weight", {8}, 1);
  const auto model = Load(writer.Build());
  ASSERT_TRUE(model.ok()) << model.status();
  const Tensor& k = (*model)->weights.layers[0].k;
  EXPECT_EQ(k.dtype, DType::kQ8_0);
  EXPECT_EQ(k.row(1)[33], std::byte{2});
  EXPECT_EQ(k.row(8)[0], std::byte{1});
  // And what came with it: a head of its own, and the RoPE factors of Llama 3.1.
  EXPECT_FALSE((*model)->config.tied_head);
  EXPECT_EQ(Dequantize((*model)->weights.head)[0], 500);
  EXPECT_THAT((*model)->config.rope_freq_factors, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(GgufLoaderTest, LlamaBiasesFollowTheirRows) {
  GgufWriter writer = Llama();
  writer.TensorF32("blk.0.attn_q.bias", {32})
      .TensorF32("blk.0.attn_k.bias", {16})
      .TensorF32("blk.0.attn_v.bias", {16});
  const auto model = Load(writer.Build());
  ASSERT_TRUE(model.ok()) << model.status();
  const LayerWeights& layer = (*model)->weights.layers[0];
  EXPECT_THAT(Dequantize(layer.k_bias),
              ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
  EXPECT_EQ(Dequantize(layer.v_bias)[1], 1);
}

TEST(GgufLoaderTest, Qwen2KeepsItsRowsAndNeedsItsBiases) {
  GgufWriter writer = Metadata("qwen2");
  writer.U32("qwen2.attention.head_count_kv", 1).F32("qwen2.rope.freq_base", 1e6f);
  AddByteLevelTokenizer(writer, "qwen2");
  AddGatedLayer(writer);
  const auto without = Load(writer.Build());
  EXPECT_THAT(std::string(without.status().message()),
              HasSubstr("tensor blk.0.attn_q.bias is missing"));
  writer.TensorF32("blk.0.attn_q.bias", {32})
      .TensorF32("blk.0.attn_k.bias", {16})
      .TensorF32("blk.0.attn_v.bias", {16});
  const auto model = Load(writer.Build());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(Dequantize((*model)->weights.layers[0].k_bias)[1], 1);
  EXPECT_EQ(Dequantize((*model)->weights.layers[0].k)[32], 32);
  EXPECT_TRUE((*model)->tokenizer.normalize_nfc);
}

TEST(GgufLoaderTest, Gpt2SplitsItsFusedMatrix) {
  GgufWriter writer = Metadata("gpt2");
  writer.F32("gpt2.attention.layer_norm_epsilon", 1e-5f);
  AddByteLevelTokenizer(writer, "gpt-2");
  writer.TensorF32("token_embd.weight", {32, 6})
      .TensorF32("position_embd.weight", {32, 24})
      .TensorF32("output_norm.weight", {32})
      .TensorF32("output_norm.bias", {32})
      .TensorF32("blk.0.attn_norm.weight", {32})
      .TensorF32("blk.0.attn_norm.bias", {32})
      .TensorF32("blk.0.attn_qkv.weight", {32, 96})
      .TensorF32("blk.0.attn_qkv.bias", {96})
      .TensorF32("blk.0.attn_output.weight", {32, 32})
      .TensorF32("blk.0.attn_output.bias", {32})
      .TensorF32("blk.0.ffn_norm.weight", {32})
      .TensorF32("blk.0.ffn_norm.bias", {32})
      .TensorF32("blk.0.ffn_up.weight", {32, 64})
      .TensorF32("blk.0.ffn_up.bias", {64})
      .TensorF32("blk.0.ffn_down.weight", {64, 32})
      .TensorF32("blk.0.ffn_down.bias", {32});
  const auto model = Load(writer.Build());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->config.learned_positions);
  const LayerWeights& layer = (*model)->weights.layers[0];
  EXPECT_EQ(Dequantize(layer.k)[0], 32 * 32);
  EXPECT_EQ(layer.v.rows, 32);
  EXPECT_EQ(Dequantize(layer.v_bias)[0], 64);
  EXPECT_FALSE(layer.gate);
}

GgufWriter Gemma3(int layers = 1) {
  GgufWriter writer;
  writer.String("general.architecture", "gemma3")
      .U32("gemma3.block_count", static_cast<uint32_t>(layers))
      .U32("gemma3.embedding_length", 32)
      .U32("gemma3.feed_forward_length", 64)
      .U32("gemma3.attention.head_count", 2)
      .U32("gemma3.attention.head_count_kv", 1)
      .U32("gemma3.attention.key_length", 16)
      .U32("gemma3.attention.value_length", 16)
      .U32("gemma3.attention.sliding_window", 8)
      .U32("gemma3.context_length", 24)
      .String("gemma3.rope.scaling.type", "linear")
      .F32("gemma3.rope.scaling.factor", 8.0f);
  AddSentencePiece(writer);
  writer.TensorF32("token_embd.weight", {32, 6}).TensorF32("output_norm.weight", {32}, 5);
  for (int i = 0; i < layers; ++i) {
    const std::string p = absl::StrCat("blk.", i, ".");
    for (const char* norm : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"}) {
      writer.TensorF32(absl::StrCat(p, norm, ".weight"), {32}, 7);
    }
    writer.TensorF32(p + "attn_q_norm.weight", {16}, 8)
        .TensorF32(p + "attn_k_norm.weight", {16}, 9)
        .TensorF32(p + "attn_q.weight", {32, 32})
        .TensorF32(p + "attn_k.weight", {32, 16})
        .TensorF32(p + "attn_v.weight", {32, 16})
        .TensorF32(p + "attn_output.weight", {32, 32})
        .TensorF32(p + "ffn_gate.weight", {32, 64})
        .TensorF32(p + "ffn_up.weight", {32, 64})
        .TensorF32(p + "ffn_down.weight", {64, 32});
  }
  return writer;
}

TEST(GgufLoaderTest, Gemma3WindowsBasesAndNormsAsTheyAre) {
  const auto model = Load(Gemma3(7).Build());
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelConfig& config = (*model)->config;
  for (int i = 0; i < 7; ++i) {
    const bool full = i == 5;
    EXPECT_EQ(config.layers[i].sliding_window, full ? 0 : 8) << i;
    EXPECT_EQ(config.layers[i].rope_theta, full ? 1e6f : 1e4f) << i;
    EXPECT_EQ(config.layers[i].rope_linear_factor, full ? 8.0f : 1.0f) << i;
  }
  EXPECT_FLOAT_EQ(config.embedding_scale, std::sqrt(32.0f));
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  const LayerWeights& layer = (*model)->weights.layers[6];
  EXPECT_EQ(Dequantize((*model)->weights.final_norm)[0], 5);
  EXPECT_EQ(Dequantize(layer.ffn_post_norm)[0], 7);
  EXPECT_EQ(Dequantize(layer.k_norm)[0], 9);
  EXPECT_EQ(Dequantize(layer.k)[32], 32);
  const text::TokenizerData& data = (*model)->tokenizer;
  EXPECT_EQ(data.kind, text::TokenizerKind::kSentencePieceBpe);
  EXPECT_EQ(data.types[3], text::TokenType::kByte);
  EXPECT_EQ(data.scores[4], -1.5f);
  EXPECT_TRUE(data.add_bos);
  EXPECT_TRUE(data.add_space_prefix);
  EXPECT_EQ(data.unknown, 0);
}

TEST(GgufLoaderTest, Gemma3TakesAPatternAsANumberOrAsFlags) {
  const auto windows = [](GgufWriter writer) {
    const auto model = Load(writer.Build());
    EXPECT_TRUE(model.ok()) << model.status();
    std::vector<int> out;
    if (!model.ok()) return out;
    for (const LayerConfig& layer : (*model)->config.layers) out.push_back(layer.sliding_window);
    return out;
  };
  constexpr char kPattern[] = "gemma3.attention.sliding_window_pattern";
  EXPECT_THAT(windows(Gemma3(3).U32(kPattern, 2)), ElementsAre(8, 0, 8));
  EXPECT_THAT(windows(Gemma3(3).Ints(kPattern, {0, 1, 1})), ElementsAre(0, 8, 8));
  const auto wrong = Load(Gemma3(3).Ints(kPattern, {0, 1}).Build());
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("a flag for each of the 3 layers"));
}

TEST(GgufLoaderTest, RefusesWhatIsNotSupportedOrWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;
  const struct {
    std::function<void(GgufWriter&)> add;
    absl::StatusCode code;
    const char* says;
  } cases[] = {
      {[](auto& w) { w.U32("llama.expert_count", 8); }, kUnsupported, "llama.expert_count is 8"},
      {[](auto& w) { w.U32("llama.attention.sliding_window", 8); }, kUnsupported,
       "llama.attention.sliding_window is 8"},
      {[](auto& w) { w.U32("llama.attention.value_length", 8); }, kUnsupported,
       "value_length is 8"},
      {[](auto& w) { w.String("llama.rope.scaling.type", "yarn"); }, kUnsupported, "\"yarn\""},
      {[](auto& w) { w.U32("split.count", 2); }, kUnsupported, "split.count is 2"},
      {[](auto& w) { w.TensorF32("extra", {4}); }, kInvalid, "tensor extra [4] is not a part"},
      {[](auto& w) {
         w.TensorF32("output.weight", {32, 7});
       },
       kInvalid, "output.weight has shape [7, 32]; the model needs [6, 32]"},
      {[](auto& w) { w.TensorF32("rope_freqs.weight", {8}, 0); }, kInvalid,
       "RoPE frequency factor is 0"},
      {[](auto& w) { w.U32("tokenizer.ggml.unknown_token_id", 6); }, kInvalid,
       "unknown_token_id is 6; the vocabulary has 6 tokens"},
      {[](auto& w) { w.U32("llama.rope.scaling.type", 1); }, kInvalid, "it must be a string"},
      {[](auto& w) { w.Bool("tokenizer.ggml.add_bos_token", true); }, absl::StatusCode::kOk, ""},
  };
  for (const auto& c : cases) {
    GgufWriter writer = Llama();
    c.add(writer);
    const auto model = Load(writer.Build());
    EXPECT_EQ(model.status().code(), c.code) << c.says << ": " << model.status();
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(c.says));
  }
}

TEST(GgufLoaderTest, RefusesArchitecturesAndTokenizersItDoesNotKnow) {
  const auto message = [](const GgufWriter& writer, absl::StatusCode code) {
    const auto model = Load(writer.Build());
    EXPECT_EQ(model.status().code(), code) << model.status();
    return std::string(model.status().message());
  };
  EXPECT_THAT(message(Metadata("mamba"), absl::StatusCode::kUnimplemented),
              HasSubstr("general.architecture is \"mamba\""));
  EXPECT_THAT(message(GgufWriter(), absl::StatusCode::kUnimplemented),
              HasSubstr("general.architecture is absent"));
  EXPECT_THAT(message(Metadata("llama"), absl::StatusCode::kInvalidArgument),
              HasSubstr("tokenizer.ggml.tokens is absent"));
  GgufWriter bert = Metadata("llama");
  bert.U32("llama.attention.head_count_kv", 1).String("tokenizer.ggml.model", "bert");
  bert.Strings("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f"});
  AddGatedLayer(bert);
  EXPECT_THAT(message(bert, absl::StatusCode::kUnimplemented),
              HasSubstr("tokenizer.ggml.model is \"bert\""));
}

TEST(GgufLoaderTest, MutatedModelsGiveAStatusOrAModel) {
  const std::string file = Llama().Build();
  // Everything but the weights themselves.
  const size_t descriptions = file.find("blk.0.ffn_down.weight") + 64;
  ASSERT_LT(descriptions, file.size());
  std::mt19937 random(3);
  int loaded = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string bytes = file;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) bytes[random() % descriptions] = static_cast<char>(random());
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    // An exact copy, so that a sanitizer sees a read past its end.
    const auto exact = std::make_shared<std::vector<char>>(bytes.begin(), bytes.end());
    const auto model = LoadGguf(AsBytes({exact->data(), exact->size()}), exact, "m.gguf");
    if (!model.ok()) continue;
    ++loaded;
    EXPECT_TRUE((*model)->config.Validate().ok());
    EXPECT_EQ((*model)->tokenizer.tokens.size(), static_cast<size_t>((*model)->config.vocab_size));
  }
  EXPECT_GT(loaded, 20) << "no mutation reaches the end of the loader";
}

}  // namespace
}  // namespace luna::model
