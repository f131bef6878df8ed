#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/model_files.h"

namespace luna::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kTokenizer[] = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 4, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 5, "content": "<|stop|>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false,
            "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "<|end|>": 4, "<|stop|>": 5},
            "merges": ["a b"]}})";

constexpr char kGpt2Config[] = R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 4, "n_layer": 1,
  "n_head": 2, "n_positions": 6, "n_inner": 8, "vocab_size": 8})";

// Width 4, 2 heads, inner 8, vocabulary 8, context 6.
SafetensorsWriter Gpt2Weights(const std::string& prefix = "transformer.") {
  SafetensorsWriter writer;
  const std::string layer = prefix + "h.0.";
  writer.AddRamp(prefix + "wte.weight", {8, 4}, 100)
      .AddRamp(prefix + "wpe.weight", {6, 4}, 200)
      .AddRamp(prefix + "ln_f.weight", {4}, 1)
      .AddRamp(prefix + "ln_f.bias", {4}, 2)
      .AddRamp(layer + "ln_1.weight", {4}, 3)
      .AddRamp(layer + "ln_1.bias", {4}, 4)
      .AddRamp(layer + "attn.c_attn.weight", {4, 12}, 0)
      .AddRamp(layer + "attn.c_attn.bias", {12}, 50)
      .AddRamp(layer + "attn.c_proj.weight", {4, 4}, 0)
      .AddRamp(layer + "attn.c_proj.bias", {4}, 5)
      .AddRamp(layer + "ln_2.weight", {4}, 6)
      .AddRamp(layer + "ln_2.bias", {4}, 7)
      .AddRamp(layer + "mlp.c_fc.weight", {4, 8}, 0)
      .AddRamp(layer + "mlp.c_fc.bias", {8}, 8)
      .AddRamp(layer + "mlp.c_proj.weight", {8, 4}, 0)
      .AddRamp(layer + "mlp.c_proj.bias", {4}, 9);
  return writer;
}

void WriteModel(const TempDir& dir, std::string_view config, const std::string& weights) {
  dir.Write("config.json", config);
  dir.Write("model.safetensors", weights);
  dir.Write("tokenizer.json", kTokenizer);
}

std::string LoadError(const TempDir& dir, absl::StatusCode code) {
  const auto model = LoadModel(dir.path());
  EXPECT_EQ(model.status().code(), code) << model.status();
  return std::string(model.status().message());
}

TEST(HfLoaderTest, Gpt2MatricesAreTransposedAndSplit) {
  for (const std::string prefix : {"transformer.", ""}) {
    TempDir dir;
    // What old checkpoints and careless writers leave beside the weights.
    SafetensorsWriter weights = Gpt2Weights(prefix);
    weights.AddRamp(prefix + "h.0.attn.bias", {1, 1, 6, 6}).AddRamp("lm_head.weight", {8, 4}, 100);
    WriteModel(dir, kGpt2Config, weights.Build());
    const auto model = LoadModel(dir.path());
    ASSERT_TRUE(model.ok()) << model.status();
    const Weights& w = (*model)->weights;
    ASSERT_EQ(w.layers.size(), 1u);
    const LayerWeights& layer = w.layers[0];
    // c_attn counts up row by row: input i, output o holds 12 i + o.
    EXPECT_THAT(Dequantize(layer.q),
                ElementsAre(0, 12, 24, 36, 1, 13, 25, 37, 2, 14, 26, 38, 3, 15, 27, 39));
    EXPECT_EQ(Dequantize(layer.k)[0], 4);
    EXPECT_EQ(Dequantize(layer.v)[1], 20);
    EXPECT_THAT(Dequantize(layer.q_bias), ElementsAre(50, 51, 52, 53));
    EXPECT_THAT(Dequantize(layer.v_bias), ElementsAre(58, 59, 60, 61));
    EXPECT_EQ(layer.up.rows, 8);
    EXPECT_EQ(layer.up.cols, 4);
    EXPECT_EQ(Dequantize(layer.up)[1], 8);    // input 1, output 0
    EXPECT_EQ(Dequantize(layer.down)[1], 4);  // input 1, output 0
    EXPECT_EQ(Dequantize(w.position_embedding)[0], 200);
    EXPECT_EQ(w.head.data, w.token_embedding.data);
    EXPECT_FALSE(layer.gate);
    EXPECT_FALSE(layer.q_norm);
    EXPECT_THAT((*model)->source, StartsWith("safetensors, F32 x "));
  }
}

TEST(HfLoaderTest, UnalignedTensorsAreMoved) {
  TempDir dir;
  const std::string file = Gpt2Weights().Build();
  uint64_t header_bytes;
  std::memcpy(&header_bytes, file.data(), 8);
  std::string header = file.substr(8, header_bytes);
  header.insert(1, std::string(9 - header.size() % 8, ' '));  // 1 more than a multiple of 8
  ASSERT_EQ(header.size() % 8, 1u);
  WriteModel(
      dir, kGpt2Config,
      SafetensorsWriter::WithHeader(header, std::string_view(file).substr(8 + header_bytes)));
  const auto model = LoadModel(dir.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const Tensor& wte = (*model)->weights.token_embedding;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(wte.data) % 4, 0u);
  EXPECT_EQ(Dequantize(wte)[0], 100);
  EXPECT_THAT(Dequantize((*model)->weights.layers[0].ffn_norm), ElementsAre(6, 7, 8, 9));
}

// 0, 1, 2, ... as bf16.
std::string RampBF16(int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) bytes += Ramp(1, static_cast<float>(i)).substr(2);
  return bytes;
}

TEST(HfLoaderTest, RefusesMissingExtraAndMisshapenTensors) {
  TempDir dir;
  WriteModel(dir, kGpt2Config,
             SafetensorsWriter().AddRamp("transformer.wte.weight", {8, 4}).Build());
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kInvalidArgument),
              HasSubstr("tensor transformer.wpe.weight is missing"));
  WriteModel(dir, kGpt2Config, Gpt2Weights().AddRamp("classifier.weight", {2, 4}).Build());
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kInvalidArgument),
              HasSubstr("tensor classifier.weight [2, 4] is not a part"));
  std::string wider = kGpt2Config;
  wider.replace(wider.find("\"n_inner\": 8"), 12, "\"n_inner\": 9");
  WriteModel(dir, wider, Gpt2Weights().Build());
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kInvalidArgument),
              HasSubstr("c_fc.weight has shape [4, 8]; the model needs [4, 9]"));
}

constexpr char kLlamaConfig[] = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 4,
  "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2,
  "num_key_value_heads": 1, "vocab_size": 6, "max_position_embeddings": 16,
  "tie_word_embeddings": false, "eos_token_id": 3})";

SafetensorsWriter LlamaLayer() {
  SafetensorsWriter writer;
  const std::string layer = "model.layers.0.";
  writer.AddRamp(layer + "input_layernorm.weight", {4}, 1)
      .AddRamp(layer + "self_attn.q_proj.weight", {4, 4}, 10)
      .AddRamp(layer + "self_attn.k_proj.weight", {2, 4}, 20)
      .AddRamp(layer + "self_attn.v_proj.weight", {2, 4}, 30)
      .AddRamp(layer + "self_attn.o_proj.weight", {4, 4}, 40)
      .AddRamp(layer + "post_attention_layernorm.weight", {4}, 2)
      .AddRamp(layer + "mlp.gate_proj.weight", {6, 4}, 50)
      .AddRamp(layer + "mlp.up_proj.weight", {6, 4}, 60)
      .AddRamp(layer + "mlp.down_proj.weight", {4, 6}, 70);
  return writer;
}

SafetensorsWriter LlamaEnds() {
  SafetensorsWriter writer;
  writer.AddRamp("model.embed_tokens.weight", {6, 4}, 100)
      .AddRamp("model.norm.weight", {4}, 3)
      .AddRamp("lm_head.weight", {6, 4}, 200);
  return writer;
}

void WriteShardedLlama(const TempDir& dir) {
  dir.Write("config.json", kLlamaConfig);
  dir.Write("tokenizer.json", kTokenizer);
  dir.Write("one.safetensors", LlamaLayer().Build());
  dir.Write("two.safetensors", LlamaEnds().Build());
  dir.Write("model.safetensors.index.json",
            R"({"metadata": {}, "weight_map": {"model.norm.weight": "two.safetensors",
                "model.layers.0.mlp.up_proj.weight": "one.safetensors"}})");
}

TEST(HfLoaderTest, LlamaInTwoFilesWithAHeadOfItsOwn) {
  TempDir dir;
  WriteShardedLlama(dir);
  const auto model = LoadModel(dir.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const Weights& w = (*model)->weights;
  EXPECT_EQ(Dequantize(w.head)[0], 200);
  EXPECT_EQ(Dequantize(w.token_embedding)[0], 100);
  EXPECT_EQ(Dequantize(w.layers[0].gate)[0], 50);
  EXPECT_EQ(w.layers[0].k.rows, 2);
  EXPECT_FALSE(w.layers[0].q_bias);
  EXPECT_THAT(Dequantize(w.final_norm), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT((*model)->tokenizer.end_ids, ElementsAre(3));
}

TEST(HfLoaderTest, MatricesKeepTheirTypeAndVectorsAreWidened) {
  TempDir dir;
  WriteShardedLlama(dir);
  SafetensorsWriter ends;
  ends.Add("model.embed_tokens.weight", {6, 4}, RampBF16(24), "BF16")
      .Add("model.norm.weight", {4}, RampBF16(4), "BF16")
      .Add("lm_head.weight", {6, 4}, RampBF16(24), "BF16");
  dir.Write("two.safetensors", ends.Build());
  const auto model = LoadModel(dir.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const Weights& w = (*model)->weights;
  EXPECT_EQ(w.head.dtype, DType::kBF16);
  EXPECT_EQ(Dequantize(w.head)[23], 23);
  EXPECT_EQ(w.final_norm.dtype, DType::kF32);
  EXPECT_THAT(Dequantize(w.final_norm), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ((*model)->source, "safetensors, F32 x 9, BF16 x 3");
}

TEST(HfLoaderTest, RefusesAnIndexThatLeavesTheDirectory) {
  TempDir dir;
  WriteShardedLlama(dir);
  for (const std::string name : {"../x.safetensors", "/etc/passwd", "..", ""}) {
    dir.Write("model.safetensors.index.json",
              absl::StrCat("{\"weight_map\": {\"a\": \"", name, "\"}}"));
    EXPECT_THAT(LoadError(dir, absl::StatusCode::kInvalidArgument),
                HasSubstr("is not the name of a file in this directory"));
  }
  dir.Write("model.safetensors.index.json", R"({"weight_map": {"a": "three.safetensors"}})");
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kNotFound), HasSubstr("no three.safetensors"));
  dir.Write("model.safetensors.index.json", "{}");
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kInvalidArgument), HasSubstr("weight_map"));
}

TEST(HfLoaderTest, RefusesATensorInTwoFiles) {
  TempDir dir;
  WriteShardedLlama(dir);
  dir.Write("one.safetensors", LlamaLayer().AddRamp("model.norm.weight", {4}).Build());
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kInvalidArgument),
              HasSubstr("tensor model.norm.weight is there twice"));
}

TEST(HfLoaderTest, EndTokensTemplateAndBosComeFromTheFilesAround) {
  TempDir dir;
  WriteShardedLlama(dir);
  dir.Write("generation_config.json", R"({"eos_token_id": [5, 4, 5, 77], "bos_token_id": 2})");
  dir.Write("tokenizer_config.json", R"({"eos_token": "<|end|>", "chat_template": "old"})");
  dir.Write("chat_template.json", R"({"chat_template": "newer"})");
  auto model = LoadModel(dir.path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->tokenizer.end_ids, ElementsAre(4, 5));
  EXPECT_EQ((*model)->tokenizer.bos, 2);
  EXPECT_EQ((*model)->tokenizer.chat_template, "newer");
  const std::string digest = (*model)->digest;
  dir.Write("chat_template.jinja", "newest");
  model = LoadModel(dir.path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->tokenizer.chat_template, "newest");
  EXPECT_NE((*model)->digest, digest);
  dir.Write("generation_config.json", R"({"eos_token_id": "five"})");
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kInvalidArgument),
              HasSubstr("generation_config.json: \"eos_token_id\" is \"five\""));
}

TEST(HfLoaderTest, PaddedVocabularyGetsUnusedTokens) {
  TempDir dir;
  WriteModel(dir, kGpt2Config, Gpt2Weights().Build());
  const auto model = LoadModel(dir.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const text::TokenizerData& data = (*model)->tokenizer;
  ASSERT_EQ(data.tokens.size(), 8u);
  ASSERT_EQ(data.types.size(), 8u);
  EXPECT_EQ(data.types[7], text::TokenType::kUnused);
  EXPECT_EQ(data.types[4], text::TokenType::kControl);
  EXPECT_EQ(data.types[3], text::TokenType::kNormal);
}

TEST(HfLoaderTest, ControlTokensBeyondTheVocabularyAreDroppedOrdinaryOnesRefused) {
  TempDir dir;
  WriteShardedLlama(dir);
  std::string tokenizer = kTokenizer;
  const std::string id = "\"id\": 5";
  tokenizer.replace(tokenizer.find(id), id.size(), "\"id\": 6");
  const std::string last = "\"<|stop|>\": 5";
  tokenizer.replace(tokenizer.find(last), last.size(), "\"d\": 5");
  dir.Write("tokenizer.json", tokenizer);
  dir.Write("tokenizer_config.json", R"({"eos_token": "<|stop|>"})");
  const auto model = LoadModel(dir.path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->tokenizer.tokens.size(), 6u);
  EXPECT_THAT((*model)->tokenizer.end_ids, testing::Not(testing::Contains(6)));

  const std::string ordinary = "\"ab\": 3,";
  std::string too_many = kTokenizer;
  too_many.replace(too_many.find(ordinary), ordinary.size(), "\"ab\": 3, \"x\": 6,");
  dir.Write("tokenizer.json", too_many);
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kInvalidArgument),
              HasSubstr("the tokenizer has 7 tokens; the model's vocabulary is 6"));
}

TEST(HfLoaderTest, SaysWhichFileIsMissing) {
  TempDir dir;
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kNotFound),
              HasSubstr("neither config.json nor a .gguf file"));
  dir.Write("config.json", kGpt2Config);
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kNotFound), HasSubstr("no model.safetensors"));
  dir.Write("model.safetensors", Gpt2Weights().Build());
  EXPECT_THAT(LoadError(dir, absl::StatusCode::kNotFound), HasSubstr("no tokenizer.json"));
}

TEST(HfLoaderTest, Gemma3NormsGetTheirOne) {
  TempDir dir;
  SafetensorsWriter weights;
  const std::string layer = "model.layers.0.";
  weights.AddRamp("model.embed_tokens.weight", {6, 4}).AddRamp("model.norm.weight", {4}, 10);
  for (const char* name : {"input_layernorm", "post_attention_layernorm",
                           "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
    weights.AddRamp(absl::StrCat(layer, name, ".weight"), {4}, 20);
  }
  weights.AddRamp(layer + "self_attn.q_norm.weight", {2}, 30)
      .AddRamp(layer + "self_attn.k_norm.weight", {2}, 40)
      .AddRamp(layer + "self_attn.q_proj.weight", {4, 4})
      .AddRamp(layer + "self_attn.k_proj.weight", {2, 4})
      .AddRamp(layer + "self_attn.v_proj.weight", {2, 4})
      .AddRamp(layer + "self_attn.o_proj.weight", {4, 4})
      .AddRamp(layer + "mlp.gate_proj.weight", {6, 4})
      .AddRamp(layer + "mlp.up_proj.weight", {6, 4})
      .AddRamp(layer + "mlp.down_proj.weight", {4, 6});
  WriteModel(dir, R"({"architectures": ["Gemma3ForCausalLM"], "hidden_size": 4,
    "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 2, "vocab_size": 6, "sliding_window": 8,
    "query_pre_attn_scalar": 2})",
             weights.Build());
  const auto model = LoadModel(dir.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const Weights& w = (*model)->weights;
  EXPECT_THAT(Dequantize(w.final_norm), ElementsAre(11, 12, 13, 14));
  EXPECT_THAT(Dequantize(w.layers[0].attention_post_norm), ElementsAre(21, 22, 23, 24));
  EXPECT_THAT(Dequantize(w.layers[0].ffn_post_norm), ElementsAre(21, 22, 23, 24));
  EXPECT_THAT(Dequantize(w.layers[0].q_norm), ElementsAre(31, 32));
  EXPECT_THAT(Dequantize(w.layers[0].k_norm), ElementsAre(41, 42));
  EXPECT_EQ(w.head.data, w.token_embedding.data);
}

}  // namespace
}  // namespace luna::model
