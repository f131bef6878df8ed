#include "core/backend/reference/decoder.h"

#include <algorithm>

#include "core/backend/checks.h"
#include "core/backend/reference/operators.h"

namespace luna::backend::reference {
namespace {

std::vector<float> Widen(const model::Tensor& tensor) {
  return tensor ? model::Dequantize(tensor) : std::vector<float>();
}

Layer WidenLayer(const model::LayerWeights& w) {
  return {.attention_norm = Widen(w.attention_norm),
          .attention_norm_bias = Widen(w.attention_norm_bias),
          .q = Widen(w.q),
          .k = Widen(w.k),
          .v = Widen(w.v),
          .q_bias = Widen(w.q_bias),
          .k_bias = Widen(w.k_bias),
          .v_bias = Widen(w.v_bias),
          .q_norm = Widen(w.q_norm),
          .k_norm = Widen(w.k_norm),
          .attention_output = Widen(w.attention_output),
          .attention_output_bias = Widen(w.attention_output_bias),
          .attention_post_norm = Widen(w.attention_post_norm),
          .ffn_norm = Widen(w.ffn_norm),
          .ffn_norm_bias = Widen(w.ffn_norm_bias),
          .gate = Widen(w.gate),
          .up = Widen(w.up),
          .up_bias = Widen(w.up_bias),
          .down = Widen(w.down),
          .down_bias = Widen(w.down_bias),
          .ffn_post_norm = Widen(w.ffn_post_norm)};
}

}  // namespace

Decoder::Decoder(const model::Model& model, int max_batch_tokens)
    : config_(model.config),
      token_embedding_(Widen(model.weights.token_embedding)),
      position_embedding_(Widen(model.weights.position_embedding)),
      final_norm_(Widen(model.weights.final_norm)),
      final_norm_bias_(Widen(model.weights.final_norm_bias)) {
  if (model.weights.head.data != model.weights.token_embedding.data)
    head_ = Widen(model.weights.head);
  for (const model::LayerWeights& layer : model.weights.layers)
    layers_.push_back(WidenLayer(layer));
  if (!config_.learned_positions) rope_ = RopeTable(config_, max_batch_tokens);
  const size_t tokens = max_batch_tokens;
  scratch_.hidden.resize(tokens * config_.hidden_size);
  scratch_.normed.resize(config_.hidden_size);
  scratch_.projected.resize(config_.hidden_size);
  scratch_.q.resize(tokens * config_.q_size());
  scratch_.k.resize(config_.kv_size());
  scratch_.v.resize(config_.kv_size());
  scratch_.attended.resize(config_.q_size());
  scratch_.gate.resize(config_.intermediate_size);
  scratch_.up.resize(config_.intermediate_size);
  scratch_.scores.resize(config_.context_length);
}

int64_t Decoder::weights_bytes() const {
  size_t values = token_embedding_.size() + position_embedding_.size() + final_norm_.size() +
                  final_norm_bias_.size() + head_.size();
  for (const Layer& l : layers_) {
    for (const std::vector<float>* tensor : {&l.attention_norm,
                                             &l.attention_norm_bias,
                                             &l.q,
                                             &l.k,
                                             &l.v,
                                             &l.q_bias,
                                             &l.k_bias,
                                             &l.v_bias,
                                             &l.q_norm,
                                             &l.k_norm,
                                             &l.attention_output,
                                             &l.attention_output_bias,
                                             &l.attention_post_norm,
                                             &l.ffn_norm,
                                             &l.ffn_norm_bias,
                                             &l.gate,
                                             &l.up,
                                             &l.up_bias,
                                             &l.down,
                                             &l.down_bias,
                                             &l.ffn_post_norm}) {
      values += tensor->size();
    }
  }
  return static_cast<int64_t>(values * sizeof(float));
}

std::span<float> Decoder::hidden(int row) {
  return std::span(scratch_.hidden).subspan(size_t(row) * config_.hidden_size, config_.hidden_size);
}

void Decoder::Embed(const batch::Batch& batch) {
  const size_t size = config_.hidden_size;
  for (int row = 0; row < batch.num_tokens(); ++row) {
    const std::span<float> out = hidden(row);
    const float* token = token_embedding_.data() + batch.token_ids[row] * size;
    for (size_t i = 0; i < size; ++i) out[i] = token[i] * config_.embedding_scale;
    if (!config_.learned_positions) continue;
    const float* position = position_embedding_.data() + batch.positions[row] * size;
    for (size_t i = 0; i < size; ++i) out[i] += position[i];
  }
}

void Decoder::Norm(std::span<const float> x, std::span<const float> weight,
                   std::span<const float> bias, std::span<float> out) const {
  if (config_.norm == model::NormKind::kLayerNorm) {
    LayerNorm(x, weight, bias, config_.norm_epsilon, out);
  } else {
    RmsNorm(x, weight, bias, config_.norm_epsilon, out);
  }
}

void Decoder::ProjectAndStore(const batch::Batch& batch, int layer, int sequence,
                              const KvPool& pool) {
  const Layer& w = layers_[layer];
  const KvLayerView view = pool.view(layer);
  const std::span<const int32_t> table = batch.block_table(view.group, sequence);
  const int block_tokens = pool.layout().block_tokens;
  const size_t head_dim = config_.head_dim;
  for (int row = batch.sequence_starts[sequence]; row < batch.sequence_starts[sequence + 1];
       ++row) {
    Norm(hidden(row), w.attention_norm, w.attention_norm_bias, scratch_.normed);
    const auto q = std::span(scratch_.q).subspan(size_t(row) * config_.q_size(), config_.q_size());
    Linear(scratch_.normed, w.q, w.q_bias, q);
    Linear(scratch_.normed, w.k, w.k_bias, scratch_.k);
    Linear(scratch_.normed, w.v, w.v_bias, scratch_.v);
    const auto finish = [&](std::span<float> heads, std::span<const float> norm) {
      for (size_t at = 0; at < heads.size(); at += head_dim) {
        const std::span<float> head = heads.subspan(at, head_dim);
        if (!norm.empty()) RmsNorm(head, norm, {}, config_.norm_epsilon, head);
        if (config_.learned_positions) continue;
        Rotate(head, rope_.cosines(layer, row), rope_.sines(layer, row));
      }
    };
    finish(q, w.q_norm);
    finish(scratch_.k, w.k_norm);
    const int position = batch.positions[row];
    std::byte* slot =
        view.data + table[position / block_tokens] * view.block_stride +
        int64_t{position % block_tokens} * config_.head_dim * static_cast<int64_t>(sizeof(float));
    StoreHeads(scratch_.k, config_.head_dim, view.head_stride, slot);
    StoreHeads(scratch_.v, config_.head_dim, view.head_stride, slot + view.values_offset);
  }
}

void Decoder::Attention(const batch::Batch& batch, int layer, int sequence, const KvPool& pool) {
  const Layer& w = layers_[layer];
  const KvLayerView view = pool.view(layer);
  const std::span<const int32_t> table = batch.block_table(view.group, sequence);
  const int heads_per_kv_head = config_.num_heads / config_.num_kv_heads;
  const size_t head_dim = config_.head_dim;
  for (int row = batch.sequence_starts[sequence]; row < batch.sequence_starts[sequence + 1];
       ++row) {
    const int last = batch.positions[row];
    const int first = FirstVisible(last, config_.layers[layer].sliding_window);
    for (int h = 0; h < config_.num_heads; ++h) {
      const std::span<const float> q =
          std::span(scratch_.q).subspan(size_t(row) * config_.q_size() + h * head_dim, head_dim);
      Attend(q, view, h / heads_per_kv_head, table, pool.layout().block_tokens, first, last,
             config_.attention_scale, scratch_.scores,
             std::span(scratch_.attended).subspan(h * head_dim, head_dim));
    }
    Linear(scratch_.attended, w.attention_output, w.attention_output_bias, scratch_.projected);
    AddResidual(row, w.attention_post_norm);
  }
}

void Decoder::FeedForward(int layer, int row) {
  const Layer& w = layers_[layer];
  Norm(hidden(row), w.ffn_norm, w.ffn_norm_bias, scratch_.normed);
  Linear(scratch_.normed, w.up, w.up_bias, scratch_.up);
  if (config_.gated_ffn) {
    Linear(scratch_.normed, w.gate, {}, scratch_.gate);
    for (size_t i = 0; i < scratch_.up.size(); ++i) {
      scratch_.up[i] *= Activate(config_.activation, scratch_.gate[i]);
    }
  } else {
    for (float& value : scratch_.up) value = Activate(config_.activation, value);
  }
  Linear(scratch_.up, w.down, w.down_bias, scratch_.projected);
  AddResidual(row, w.ffn_post_norm);
}

void Decoder::AddResidual(int row, std::span<const float> post_norm) {
  if (!post_norm.empty()) {
    RmsNorm(scratch_.projected, post_norm, {}, config_.norm_epsilon, scratch_.projected);
  }
  const std::span<float> x = hidden(row);
  for (size_t i = 0; i < x.size(); ++i) x[i] += scratch_.projected[i];
}

void Decoder::Forward(const batch::Batch& batch, const KvPool& pool) {
  Embed(batch);
  if (!config_.learned_positions) rope_.Fill(batch.positions);
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    for (int s = 0; s < batch.num_sequences(); ++s) {
      ProjectAndStore(batch, layer, s, pool);
      Attention(batch, layer, s, pool);
    }
    for (int row = 0; row < batch.num_tokens(); ++row) FeedForward(layer, row);
  }
}

void Decoder::Logits(int row, std::span<float> logits) {
  Norm(hidden(row), final_norm_, final_norm_bias_, scratch_.normed);
  Linear(scratch_.normed, head_.empty() ? token_embedding_ : head_, {}, logits);
}

}  // namespace luna::backend::reference
