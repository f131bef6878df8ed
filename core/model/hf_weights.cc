#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/model/loaders.h"

namespace luna::model {
namespace {

template <typename Element>
void Transpose(const std::byte* source, int64_t rows, int64_t cols, std::byte* target) {
  constexpr int64_t kSize = sizeof(Element);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      std::memcpy(target + (c * rows + r) * kSize, source + (r * cols + c) * kSize, kSize);
    }
  }
}

// GPT-2's Conv1D keeps [inputs, outputs]: gives [outputs, inputs].
Tensor TakeConv1D(TensorTable& table, const std::string& name, int64_t inputs, int64_t outputs) {
  const Tensor source = table.TakeMatrix(name, inputs, outputs);
  if (!source) return {};
  std::byte* data = AllocateIn(table.storage(), source.bytes());
  if (BlockBytes(source.dtype) == 4) {
    Transpose<uint32_t>(source.data, inputs, outputs, data);
  } else {
    Transpose<uint16_t>(source.data, inputs, outputs, data);
  }
  return {source.dtype, outputs, inputs, data};
}

// Rows [first, first + count) of a matrix, or elements of a vector.
Tensor Part(const Tensor& tensor, int64_t first, int64_t count) {
  if (!tensor) return {};
  if (tensor.rows > 1) return {tensor.dtype, count, tensor.cols, tensor.row(first)};
  return {tensor.dtype, 1, count, tensor.data + first * BlockBytes(tensor.dtype)};
}

void TakeGpt2Layer(const ModelConfig& config, const std::string& prefix, TensorTable& table,
                   LayerWeights& w) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  w.attention_norm = table.TakeVector(prefix + "ln_1.weight", hidden);
  w.attention_norm_bias = table.TakeVector(prefix + "ln_1.bias", hidden);
  const Tensor qkv = TakeConv1D(table, prefix + "attn.c_attn.weight", hidden, 3 * hidden);
  w.q = Part(qkv, 0, hidden);
  w.k = Part(qkv, hidden, hidden);
  w.v = Part(qkv, 2 * hidden, hidden);
  const Tensor qkv_bias = table.TakeVector(prefix + "attn.c_attn.bias", 3 * hidden);
  w.q_bias = Part(qkv_bias, 0, hidden);
  w.k_bias = Part(qkv_bias, hidden, hidden);
  w.v_bias = Part(qkv_bias, 2 * hidden, hidden);
  w.attention_output = TakeConv1D(table, prefix + "attn.c_proj.weight", hidden, hidden);
  w.attention_output_bias = table.TakeVector(prefix + "attn.c_proj.bias", hidden);
  w.ffn_norm = table.TakeVector(prefix + "ln_2.weight", hidden);
  w.ffn_norm_bias = table.TakeVector(prefix + "ln_2.bias", hidden);
  w.up = TakeConv1D(table, prefix + "mlp.c_fc.weight", hidden, inner);
  w.up_bias = table.TakeVector(prefix + "mlp.c_fc.bias", inner);
  w.down = TakeConv1D(table, prefix + "mlp.c_proj.weight", inner, hidden);
  w.down_bias = table.TakeVector(prefix + "mlp.c_proj.bias", hidden);
  // Causal masks that old checkpoints carry along.
  table.Ignore(prefix + "attn.bias");
  table.Ignore(prefix + "attn.masked_bias");
}

void TakeGpt2(const ModelConfig& config, TensorTable& table, Weights& weights) {
  const std::string prefix = table.Has("wte.weight") ? "" : "transformer.";
  const int64_t hidden = config.hidden_size;
  weights.token_embedding = table.TakeMatrix(prefix + "wte.weight", config.vocab_size, hidden);
  weights.position_embedding =
      table.TakeMatrix(prefix + "wpe.weight", config.context_length, hidden);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    TakeGpt2Layer(config, absl::StrCat(prefix, "h.", i, "."), table, weights.layers[i]);
  }
  weights.final_norm = table.TakeVector(prefix + "ln_f.weight", hidden);
  weights.final_norm_bias = table.TakeVector(prefix + "ln_f.bias", hidden);
}

// A norm weight. Gemma stores its distance from one.
Tensor TakeNorm(const ModelConfig& config, TensorTable& table, const std::string& name,
                int64_t size) {
  const Tensor stored = table.TakeVector(name, size);
  if (!stored || config.architecture != Architecture::kGemma3) return stored;
  std::byte* data = AllocateIn(table.storage(), stored.bytes());
  const auto* source = reinterpret_cast<const float*>(stored.data);
  auto* target = reinterpret_cast<float*>(data);
  for (int64_t i = 0; i < size; ++i) target[i] = 1.0f + source[i];
  return {DType::kF32, 1, size, data};
}

void TakeAttention(const ModelConfig& config, const std::string& prefix, TensorTable& table,
                   LayerWeights& w) {
  const int64_t hidden = config.hidden_size;
  w.q = table.TakeMatrix(prefix + "q_proj.weight", config.q_size(), hidden);
  w.k = table.TakeMatrix(prefix + "k_proj.weight", config.kv_size(), hidden);
  w.v = table.TakeMatrix(prefix + "v_proj.weight", config.kv_size(), hidden);
  w.attention_output = table.TakeMatrix(prefix + "o_proj.weight", hidden, config.q_size());
  if (config.architecture == Architecture::kGemma3) {
    w.q_norm = TakeNorm(config, table, prefix + "q_norm.weight", config.head_dim);
    w.k_norm = TakeNorm(config, table, prefix + "k_norm.weight", config.head_dim);
    return;
  }
  const bool qwen2 = config.architecture == Architecture::kQwen2;
  if (qwen2 || table.Has(prefix + "q_proj.bias")) {
    w.q_bias = table.TakeVector(prefix + "q_proj.bias", config.q_size());
    w.k_bias = table.TakeVector(prefix + "k_proj.bias", config.kv_size());
    w.v_bias = table.TakeVector(prefix + "v_proj.bias", config.kv_size());
  }
  if (!qwen2) {
    w.attention_output_bias = table.TakeVectorIfPresent(prefix + "o_proj.bias", hidden);
  }
  table.Ignore(prefix + "rotary_emb.inv_freq");
}

void TakeRmsNormLayer(const ModelConfig& config, const std::string& prefix, TensorTable& table,
                      LayerWeights& w) {
  const int64_t hidden = config.hidden_size;
  const auto norm = [&](const char* name) {
    return TakeNorm(config, table, absl::StrCat(prefix, name, ".weight"), hidden);
  };
  w.attention_norm = norm("input_layernorm");
  TakeAttention(config, prefix + "self_attn.", table, w);
  if (config.architecture == Architecture::kGemma3) {
    w.attention_post_norm = norm("post_attention_layernorm");
    w.ffn_norm = norm("pre_feedforward_layernorm");
    w.ffn_post_norm = norm("post_feedforward_layernorm");
  } else {
    w.ffn_norm = norm("post_attention_layernorm");
  }
  w.gate = table.TakeMatrix(prefix + "mlp.gate_proj.weight", config.intermediate_size, hidden);
  w.up = table.TakeMatrix(prefix + "mlp.up_proj.weight", config.intermediate_size, hidden);
  w.down = table.TakeMatrix(prefix + "mlp.down_proj.weight", hidden, config.intermediate_size);
}

void TakeRmsNormFamily(const ModelConfig& config, TensorTable& table, Weights& weights) {
  const std::string prefix = table.Has("embed_tokens.weight") ? "" : "model.";
  weights.token_embedding =
      table.TakeMatrix(prefix + "embed_tokens.weight", config.vocab_size, config.hidden_size);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    TakeRmsNormLayer(config, absl::StrCat(prefix, "layers.", i, "."), table, weights.layers[i]);
  }
  weights.final_norm = TakeNorm(config, table, prefix + "norm.weight", config.hidden_size);
}

}  // namespace

absl::Status TakeHfWeights(const ModelConfig& config, TensorTable& table, Weights& weights) {
  weights.layers.resize(static_cast<size_t>(config.num_layers));
  if (config.architecture == Architecture::kGpt2) {
    TakeGpt2(config, table, weights);
  } else {
    TakeRmsNormFamily(config, table, weights);
  }
  if (config.tied_head) {
    weights.head = weights.token_embedding;
    table.Ignore("lm_head.weight");  // a copy of the embedding that some writers keep
  } else {
    weights.head = table.TakeMatrix("lm_head.weight", config.vocab_size, config.hidden_size);
  }
  if (!table.status().ok()) return table.status();
  return table.CheckAllTaken();
}

}  // namespace luna::model
