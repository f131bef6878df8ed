#include "core/backend/cpu/decoder.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/backend/checks.h"
#include "core/base/status_macros.h"

namespace luna::backend::cpu {
namespace {

// A step has eight barriers a layer, and one may take milliseconds where another process wants the
// core; a step of fewer products than this is soon done by one thread.
constexpr int64_t kProductsWorthSharing = 4'000'000;

}  // namespace

Decoder::Decoder(std::shared_ptr<const model::Model> model, const Kernels& kernels,
                 const BackendOptions& options)
    : model_(std::move(model)),
      config_(model_->config),
      kernels_(kernels),
      product_(kernels.products.Of(*options.weights)),
      kv_format_(kernels.kv_formats.Of(*options.kv_dtype)),
      share_small_steps_(options.share_small_steps),
      workers_(options.num_threads),
      sequence_of_row_(options.max_batch_tokens) {
  if (!config_.learned_positions) rope_ = RopeTable(config_, options.max_batch_tokens);
  for (int i = 0; i < options.num_threads; ++i) samplers_.emplace_back(config_.vocab_size);
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Make(std::shared_ptr<const model::Model> model,
                                                       const Kernels& kernels,
                                                       const BackendOptions& options) {
  std::unique_ptr<Decoder> decoder(new Decoder(std::move(model), kernels, options));
  LUNA_ASSIGN_OR_RETURN(decoder->weights_, PackedWeights::Pack(*decoder->model_, decoder->product_,
                                                               decoder->workers_));
  LUNA_ASSIGN_OR_RETURN(decoder->scratch_,
                        Scratch::Make(decoder->config_, decoder->product_, options.max_batch_tokens,
                                      options.num_threads));
  return decoder;
}

void Decoder::Step(const batch::Batch& batch, const KvPool& pool,
                   std::span<sample::SampledToken> sampled) {
  const int64_t products = batch.num_tokens() * weights_.num_products();
  const bool share = share_small_steps_ || products >= kProductsWorthSharing;
  const int threads = share ? workers_.num_threads() : 1;
  work_ = {.batch = &batch,
           .pool = &pool,
           .sampled = sampled,
           .rows = batch.num_tokens(),
           .threads = threads};
  for (int s = 0; s < batch.num_sequences(); ++s) {
    std::fill(sequence_of_row_.begin() + batch.sequence_starts[s],
              sequence_of_row_.begin() + batch.sequence_starts[s + 1], s);
  }
  if (!config_.learned_positions) rope_.Fill(batch.positions);
  auto body = [this](int thread) { RunThread(thread); };
  if (threads == 1) {
    workers_.RunAlone(body);
  } else {
    workers_.Run(body);
  }
}

void Decoder::RunThread(int thread) {
  Embed(thread);
  workers_.Sync();
  for (int layer = 0; layer < config_.num_layers; ++layer) RunLayer(layer, thread);
  HeadAndSample(thread);
}

void Decoder::RunLayer(int layer, int thread) {
  const PackedLayer& w = weights_.layers()[layer];
  const float* previous_post_norm =
      layer == 0 ? nullptr : weights_.layers()[layer - 1].ffn_post_norm;
  AddAndNorm(previous_post_norm, w.attention_norm, w.attention_norm_bias, thread);
  workers_.Sync();
  const Range panels = RangeOf(w.qkv.num_panels, thread);
  product_.multiply(ProductOf(w.qkv, scratch_.prepared_normed, scratch_.qkv, work_.rows, panels));
  workers_.Sync();
  RotateAndStore(layer, thread);
  workers_.Sync();
  Attend(layer, thread);
  workers_.Sync();
  ProjectToHidden(w.attention_output, scratch_.prepared_attended, w.attention_post_norm != nullptr,
                  thread);
  workers_.Sync();
  AddAndNorm(w.attention_post_norm, w.ffn_norm, w.ffn_norm_bias, thread);
  workers_.Sync();
  FeedForwardUp(w.up, thread);
  workers_.Sync();
  ProjectToHidden(w.down, scratch_.prepared_activated, w.ffn_post_norm != nullptr, thread);
  workers_.Sync();
}

MultiplyArgs Decoder::ProductOf(const PackedMatrix& matrix, const PreparedRows& a, const Rows& out,
                                int rows, Range panels) const {
  return {.a = a.data,
          .a_stride = a.stride,
          .rows = rows,
          .panels = matrix.panels,
          .inputs = matrix.inputs,
          .panel_begin = panels.begin,
          .panel_end = panels.end,
          .bias = matrix.bias,
          .out = out.data,
          .out_stride = out.stride};
}

void Decoder::Prepare(const Rows& rows, const PreparedRows& prepared, int row, int inputs,
                      int begin, int end) const {
  if (product_.prepare == nullptr) return;
  product_.prepare(rows.row(row), inputs, begin, end, prepared.row(row));
}

int Decoder::PreparedTogether(int size) const {
  return product_.prepare == nullptr ? 1 : std::lcm(size, product_.group) / size;
}

void Decoder::Embed(int thread) {
  const model::Weights& w = model_->weights;
  const int size = config_.hidden_size;
  const Range range = RangeOf(work_.rows, thread);
  for (int row = range.begin; row < range.end; ++row) {
    float* out = scratch_.hidden.row(row);
    model::DequantizeRow(w.token_embedding.dtype,
                         w.token_embedding.row(work_.batch->token_ids[row]), size, out);
    for (int i = 0; i < size; ++i) out[i] *= config_.embedding_scale;
    if (!config_.learned_positions) continue;
    float* position = scratch_.normed.row(row);
    model::DequantizeRow(w.position_embedding.dtype,
                         w.position_embedding.row(work_.batch->positions[row]), size, position);
    for (int i = 0; i < size; ++i) out[i] += position[i];
  }
}

void Decoder::Norm(const float* x, const float* weight, const float* bias, float* out) const {
  const auto norm =
      config_.norm == model::NormKind::kLayerNorm ? kernels_.layer_norm : kernels_.rms_norm;
  norm(x, weight, bias, config_.norm_epsilon, config_.hidden_size, out);
}

void Decoder::AddAndNorm(const float* post_norm, const float* norm, const float* norm_bias,
                         int thread) {
  const Range range = RangeOf(work_.rows, thread);
  for (int row = range.begin; row < range.end; ++row) {
    float* hidden = scratch_.hidden.row(row);
    if (post_norm != nullptr) {
      float* projected = scratch_.projected.row(row);
      kernels_.rms_norm(projected, post_norm, nullptr, config_.norm_epsilon, config_.hidden_size,
                        projected);
      for (int i = 0; i < config_.hidden_size; ++i) hidden[i] += projected[i];
    }
    if (norm == nullptr) continue;
    Norm(hidden, norm, norm_bias, scratch_.normed.row(row));
    Prepare(scratch_.normed, scratch_.prepared_normed, row, config_.hidden_size, 0,
            config_.hidden_size);
  }
}

void Decoder::RotateAndStore(int layer, int thread) {
  const PackedLayer& w = weights_.layers()[layer];
  const KvLayerView& view = work_.pool->view(layer);
  const int block_tokens = work_.pool->layout().block_tokens;
  const int head_dim = config_.head_dim;
  const Range range = RangeOf(work_.rows, thread);
  for (int row = range.begin; row < range.end; ++row) {
    float* q = scratch_.qkv.row(row);
    float* k = q + config_.q_size();
    const float* v = k + config_.kv_size();
    const auto finish = [&](float* heads, int num_heads, const float* norm) {
      for (int h = 0; h < num_heads; ++h, heads += head_dim) {
        if (norm != nullptr) {
          kernels_.rms_norm(heads, norm, nullptr, config_.norm_epsilon, head_dim, heads);
        }
        if (config_.learned_positions) continue;
        kernels_.rotate(heads, rope_.cosines(layer, row), rope_.sines(layer, row), rope_.half());
      }
    };
    finish(q, config_.num_heads, w.q_norm);
    finish(k, config_.num_kv_heads, w.k_norm);
    const int position = work_.batch->positions[row];
    const auto table = work_.batch->block_table(view.group, sequence_of_row_[row]);
    std::byte* keys = view.data + table[position / block_tokens] * view.block_stride;
    for (int h = 0; h < config_.num_kv_heads; ++h, keys += view.head_stride) {
      kv_format_.store(k + int64_t{h} * head_dim, v + int64_t{h} * head_dim, head_dim, block_tokens,
                       position % block_tokens, keys, keys + view.values_offset);
    }
  }
}

AttendArgs Decoder::AttendArgsOf(int layer, int thread) const {
  const KvLayerView& view = work_.pool->view(layer);
  const int heads = config_.num_heads / config_.num_kv_heads;
  return {.q_stride = scratch_.qkv.stride,
          .out_stride = scratch_.attended.stride,
          .heads = heads,
          .head_dim = config_.head_dim,
          .window = config_.layers[layer].sliding_window,
          .scale = config_.attention_scale,
          .values_offset = view.values_offset,
          .block_stride = view.block_stride,
          .block_tokens = work_.pool->layout().block_tokens,
          .scores = scratch_.scores.row(int64_t{thread} * AttendQueries(heads)),
          .score_stride = scratch_.scores.stride};
}

void Decoder::Attend(int layer, int thread) {
  constexpr int kCallCost = 16;  // positions that the work around a token and head is worth
  const batch::Batch& batch = *work_.batch;
  const KvLayerView& view = work_.pool->view(layer);
  AttendArgs args = AttendArgsOf(layer, thread);
  const auto cost_of = [&](int row) {
    const int position = batch.positions[row];
    return int64_t{position} - FirstVisible(position, args.window) + kCallCost;
  };
  int64_t total = 0;
  for (int row = 0; row < work_.rows; ++row) total += cost_of(row) * config_.num_kv_heads;
  const int64_t begin = total * thread / work_.threads;
  const int64_t end = total * (thread + 1) / work_.threads;

  const int kv_head_size = args.heads * config_.head_dim;
  const int together = PreparedTogether(kv_head_size);
  int64_t at = 0;  // what begins in a thread's share of the cost is the thread's
  for (int row = 0; row < work_.rows; row += args.tokens) {
    const int sequence = sequence_of_row_[row];
    args.tokens = std::min(AttendTokens(args.heads), batch.sequence_starts[sequence + 1] - row);
    args.position = batch.positions[row];
    args.table = batch.block_table(view.group, sequence).data();
    int64_t cost = 0;
    for (int i = 0; i < args.tokens; ++i) cost += cost_of(row + i);
    for (int first = 0; first < config_.num_kv_heads; first += together) {
      const int behind = std::min(first + together, config_.num_kv_heads);
      const bool is_ours = at >= begin && at < end;
      at += cost * (behind - first);
      if (!is_ours) continue;
      for (int h = first; h < behind; ++h) {
        args.q = scratch_.qkv.row(row) + int64_t{h} * kv_head_size;
        args.out = scratch_.attended.row(row) + int64_t{h} * kv_head_size;
        args.keys = view.data + h * view.head_stride;
        kv_format_.attend(args);
      }
      for (int i = 0; i < args.tokens; ++i) {
        Prepare(scratch_.attended, scratch_.prepared_attended, row + i, config_.q_size(),
                first * kv_head_size, behind * kv_head_size);
      }
    }
  }
}

void Decoder::ProjectToHidden(const PackedMatrix& matrix, const PreparedRows& a, bool post_norm,
                              int thread) {
  MultiplyArgs args = ProductOf(matrix, a, post_norm ? scratch_.projected : scratch_.hidden,
                                work_.rows, RangeOf(matrix.num_panels, thread));
  args.add_to_out = !post_norm;
  product_.multiply(args);
}

void Decoder::FeedForwardUp(const PackedMatrix& matrix, int thread) {
  // A gate and its up are two neighbouring panels of one thread, and what is prepared together is
  // one thread's too, so neither the activation nor that needs a barrier.
  const int group = config_.gated_ffn ? 2 : 1;
  const int num_panels = matrix.num_panels / group;  // of `activated`
  const int together = PreparedTogether(kPanel);
  const Range units = RangeOf((num_panels + together - 1) / together, thread);
  const Range outputs = {units.begin * together, std::min(units.end * together, num_panels)};
  product_.multiply(ProductOf(matrix, scratch_.prepared_normed, scratch_.up, work_.rows,
                              {outputs.begin * group, outputs.end * group}));
  const int count = outputs.end - outputs.begin;
  for (int row = 0; row < work_.rows; ++row) {
    const float* up = scratch_.up.row(row) + int64_t{outputs.begin} * group * kPanel;
    float* activated = scratch_.activated.row(row) + int64_t{outputs.begin} * kPanel;
    if (config_.gated_ffn) {
      kernels_.activate_gated(config_.activation, up, count, activated);
    } else {
      kernels_.activate(config_.activation, up, count * kPanel, activated);
    }
    Prepare(scratch_.activated, scratch_.prepared_activated, row, config_.intermediate_size,
            outputs.begin * kPanel, std::min(outputs.end * kPanel, config_.intermediate_size));
  }
}

void Decoder::HeadAndSample(int thread) {
  AddAndNorm(weights_.layers().back().ffn_post_norm, nullptr, nullptr, thread);
  workers_.Sync();
  const std::vector<sample::SampleSpec>& samples = work_.batch->samples;
  for (size_t begin = 0; begin < samples.size(); begin += kLogitRows) {
    const int count = static_cast<int>(std::min<size_t>(kLogitRows, samples.size() - begin));
    const Range rows = RangeOf(count, thread);
    for (int i = rows.begin; i < rows.end; ++i) {
      Norm(scratch_.hidden.row(samples[begin + i].row), weights_.final_norm(),
           weights_.final_norm_bias(), scratch_.normed.row(i));
      Prepare(scratch_.normed, scratch_.prepared_normed, i, config_.hidden_size, 0,
              config_.hidden_size);
    }
    workers_.Sync();
    const PackedMatrix& head = weights_.head();
    product_.multiply(ProductOf(head, scratch_.prepared_normed, scratch_.logits, count,
                                RangeOf(head.num_panels, thread)));
    workers_.Sync();
    for (int i = rows.begin; i < rows.end; ++i) {
      samplers_[thread].Sample({scratch_.logits.row(i), static_cast<size_t>(config_.vocab_size)},
                               samples[begin + i], work_.sampled[begin + i]);
    }
  }
}

}  // namespace luna::backend::cpu
