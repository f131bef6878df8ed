#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/gguf_model.h"
#include "core/model/loaders.h"
#include "core/model/mapped_file.h"

namespace luna::model {
namespace {

// GGUF stores Llama's Q and K with the rows of each head interleaved, so that RoPE pairs (2i, 2i +
// 1); gives them back in the order of pairs (i, i + head_dim / 2). Rows are whole blocks: any type
// works. `tensor` is [heads * head_dim, hidden], or a bias [heads * head_dim].
Tensor UndoRopeInterleaving(const Tensor& tensor, int head_dim, TensorTable& table) {
  if (!tensor) return {};
  std::byte* data = AllocateIn(table.storage(), tensor.bytes());
  const bool vector = tensor.rows == 1;
  const int64_t rows = vector ? tensor.cols : tensor.rows;
  const int64_t row_bytes = tensor.bytes() / rows;
  const int64_t half = head_dim / 2;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_dim;
    const int64_t in_head = row % head_dim;
    const int64_t source = head * head_dim + in_head % half * 2 + in_head / half;
    std::memcpy(data + row * row_bytes, tensor.data + source * row_bytes,
                static_cast<size_t>(row_bytes));
  }
  return {tensor.dtype, tensor.rows, tensor.cols, data};
}

Tensor Rows(const Tensor& tensor, int64_t first, int64_t count) {
  if (!tensor) return {};
  return {tensor.dtype, count, tensor.cols, tensor.row(first)};
}

Tensor Elements(const Tensor& tensor, int64_t first, int64_t count) {
  if (!tensor) return {};
  return {DType::kF32, 1, count, tensor.data + first * static_cast<int64_t>(sizeof(float))};
}

void TakeGpt2Layer(const ModelConfig& config, const std::string& prefix, TensorTable& table,
                   LayerWeights& w) {
  const int64_t hidden = config.hidden_size;
  w.attention_norm_bias = table.TakeVector(prefix + "attn_norm.bias", hidden);
  const Tensor qkv = table.TakeMatrix(prefix + "attn_qkv.weight", 3 * hidden, hidden);
  w.q = Rows(qkv, 0, hidden);
  w.k = Rows(qkv, hidden, hidden);
  w.v = Rows(qkv, 2 * hidden, hidden);
  const Tensor bias = table.TakeVector(prefix + "attn_qkv.bias", 3 * hidden);
  w.q_bias = Elements(bias, 0, hidden);
  w.k_bias = Elements(bias, hidden, hidden);
  w.v_bias = Elements(bias, 2 * hidden, hidden);
  w.attention_output_bias = table.TakeVector(prefix + "attn_output.bias", hidden);
  w.ffn_norm_bias = table.TakeVector(prefix + "ffn_norm.bias", hidden);
  w.up_bias = table.TakeVector(prefix + "ffn_up.bias", config.intermediate_size);
  w.down_bias = table.TakeVector(prefix + "ffn_down.bias", hidden);
}

void TakeRmsNormLayer(const ModelConfig& config, const std::string& prefix, TensorTable& table,
                      LayerWeights& w) {
  const int64_t hidden = config.hidden_size;
  w.q = table.TakeMatrix(prefix + "attn_q.weight", config.q_size(), hidden);
  w.k = table.TakeMatrix(prefix + "attn_k.weight", config.kv_size(), hidden);
  w.v = table.TakeMatrix(prefix + "attn_v.weight", config.kv_size(), hidden);
  w.gate = table.TakeMatrix(prefix + "ffn_gate.weight", config.intermediate_size, hidden);
  if (config.architecture == Architecture::kGemma3) {
    w.q_norm = table.TakeVector(prefix + "attn_q_norm.weight", config.head_dim);
    w.k_norm = table.TakeVector(prefix + "attn_k_norm.weight", config.head_dim);
    w.attention_post_norm = table.TakeVector(prefix + "post_attention_norm.weight", hidden);
    w.ffn_post_norm = table.TakeVector(prefix + "post_ffw_norm.weight", hidden);
    return;
  }
  const bool qwen2 = config.architecture == Architecture::kQwen2;
  if (qwen2 || table.Has(prefix + "attn_q.bias")) {
    w.q_bias = table.TakeVector(prefix + "attn_q.bias", config.q_size());
    w.k_bias = table.TakeVector(prefix + "attn_k.bias", config.kv_size());
    w.v_bias = table.TakeVector(prefix + "attn_v.bias", config.kv_size());
  }
  if (qwen2) return;
  w.attention_output_bias = table.TakeVectorIfPresent(prefix + "attn_output.bias", hidden);
  w.q = UndoRopeInterleaving(w.q, config.head_dim, table);
  w.k = UndoRopeInterleaving(w.k, config.head_dim, table);
  w.q_bias = UndoRopeInterleaving(w.q_bias, config.head_dim, table);
  w.k_bias = UndoRopeInterleaving(w.k_bias, config.head_dim, table);
}

void TakeLayer(const ModelConfig& config, const std::string& prefix, TensorTable& table,
               LayerWeights& w) {
  const int64_t hidden = config.hidden_size;
  w.attention_norm = table.TakeVector(prefix + "attn_norm.weight", hidden);
  w.attention_output = table.TakeMatrix(prefix + "attn_output.weight", hidden, config.q_size());
  w.ffn_norm = table.TakeVector(prefix + "ffn_norm.weight", hidden);
  w.up = table.TakeMatrix(prefix + "ffn_up.weight", config.intermediate_size, hidden);
  w.down = table.TakeMatrix(prefix + "ffn_down.weight", hidden, config.intermediate_size);
  if (config.architecture == Architecture::kGpt2) {
    TakeGpt2Layer(config, prefix, table, w);
  } else {
    TakeRmsNormLayer(config, prefix, table, w);
  }
}

// Llama 3.1 and later: the factors of its RoPE scaling, computed by whoever wrote the file.
void TakeRopeFactors(ModelConfig& config, TensorTable& table) {
  constexpr char kName[] = "rope_freqs.weight";
  if (config.architecture != Architecture::kLlama || !table.Has(kName)) return;
  const Tensor factors = table.TakeVector(kName, config.head_dim / 2);
  if (factors) config.rope_freq_factors = Dequantize(factors);
}

}  // namespace

absl::Status TakeGgufWeights(ModelConfig& config, TensorTable& table, Weights& weights) {
  const int64_t hidden = config.hidden_size;
  weights.token_embedding = table.TakeMatrix("token_embd.weight", config.vocab_size, hidden);
  if (config.learned_positions) {
    weights.position_embedding =
        table.TakeMatrix("position_embd.weight", config.context_length, hidden);
    weights.final_norm_bias = table.TakeVector("output_norm.bias", hidden);
  }
  weights.final_norm = table.TakeVector("output_norm.weight", hidden);
  config.tied_head = !table.Has("output.weight");
  weights.head = config.tied_head ? weights.token_embedding
                                  : table.TakeMatrix("output.weight", config.vocab_size, hidden);
  weights.layers.resize(static_cast<size_t>(config.num_layers));
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    TakeLayer(config, absl::StrCat("blk.", i, "."), table, weights.layers[i]);
  }
  TakeRopeFactors(config, table);
  LUNA_RETURN_IF_ERROR(table.status());
  LUNA_RETURN_IF_ERROR(table.CheckAllTaken());
  return config.Validate();
}

absl::StatusOr<std::unique_ptr<Model>> LoadGguf(std::span<const std::byte> bytes,
                                                std::shared_ptr<const void> owner,
                                                const std::string& name) {
  const auto in_file = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
  };
  LUNA_ASSIGN_OR_RETURN(GgufFile file, ParseGguf(bytes, name));
  auto model = std::make_unique<Model>();
  auto config = ReadGgufConfig(file);
  if (!config.ok()) return in_file(config.status());
  model->config = *std::move(config);
  TensorTable table;
  for (auto& [tensor_name, tensor] : file.tensors) {
    const absl::Status added = table.Add(tensor_name, std::move(tensor));
    if (!added.ok()) return in_file(added);
  }
  table.storage().push_back(std::move(owner));
  const absl::Status taken = TakeGgufWeights(model->config, table, model->weights);
  if (!taken.ok()) return in_file(taken);
  auto tokenizer = ReadGgufTokenizer(file, model->config.architecture);
  if (!tokenizer.ok()) return in_file(tokenizer.status());
  model->tokenizer = *std::move(tokenizer);
  const absl::Status fitted = FitVocabulary(model->config.vocab_size, model->tokenizer);
  if (!fitted.ok()) return in_file(fitted);
  model->weights_bytes = table.total_bytes();
  model->source = absl::StrCat("GGUF v", file.version, ", ", table.TypeSummary());
  model->storage = std::move(table.storage());
  return model;
}

absl::StatusOr<std::unique_ptr<Model>> LoadGgufFile(const std::string& path) {
  LUNA_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> mapped, MappedFile::Open(path));
  return LoadGguf(mapped->bytes(), mapped, path);
}

}  // namespace luna::model
