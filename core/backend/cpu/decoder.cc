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

MatrixProducts ProductsOf(const Product& f32, const RoundingProducts& rounding,
                          WeightsFormat format) {
  switch (format) {
    case WeightsFormat::kF32:
      return {.general = &f32};
    case WeightsFormat::kBf16:
      return {.general = &rounding.bf16};
    case WeightsFormat::kInt8:
      return {.general = &rounding.int8};
    case WeightsFormat::kInt4:
      break;
  }
  return {.general = &rounding.int8, .q4 = &rounding.int4};
}

}  // namespace

Decoder::Decoder(std::shared_ptr<const model::Model> model, const Kernels& kernels,
                 const BackendOptions& options)
    : model_(std::move(model)),
      config_(model_->config),
      kernels_(kernels),
      kv_format_(kernels.kv_formats.Of(*options.kv_dtype)),
      share_small_steps_(options.share_small_steps),
      workers_(options.num_threads),
      sequence_of_row_(options.max_batch_tokens) {
  if (!config_.learned_positions) rope_ = RopeTable(config_, options.max_batch_tokens);
  for (int i = 0; i < options.num_threads; ++i) samplers_.emplace_back(config_.vocab_size);
  tiles_.reserve(options.max_batch_tokens);
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Make(std::shared_ptr<const model::Model> model,
                                                       const Kernels& kernels,
                                                       const BackendOptions& options) {
  std::unique_ptr<Decoder> decoder(new Decoder(std::move(model), kernels, options));
  const Products& all = kernels.products;
  const MatrixProducts outer = ProductsOf(all.f32, all.fast, *options.weights);
  const MatrixProducts inner = HasOutlyingChannels(*decoder->model_)
                                   ? ProductsOf(all.f32, all.precise, *options.weights)
                                   : outer;
  LUNA_ASSIGN_OR_RETURN(
      decoder->weights_,
      PackedWeights::Pack(*decoder->model_, inner, outer, decoder->workers_, options.on_progress));
  LUNA_ASSIGN_OR_RETURN(decoder->scratch_,
                        Scratch::Make(decoder->config_, *inner.general, *outer.general,
                                      options.max_batch_tokens, options.num_threads));
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
  tiles_.clear();
  const int most = AttendTokens(config_.num_heads / config_.num_kv_heads);
  for (int s = 0; s < batch.num_sequences(); ++s) {
    const int begin = batch.sequence_starts[s], end = batch.sequence_starts[s + 1];
    std::fill(sequence_of_row_.begin() + begin, sequence_of_row_.begin() + end, s);
    for (int row = begin; row < end; row += most) {
      tiles_.push_back({.row = row, .tokens = std::min(most, end - row), .sequence = s});
    }
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
  workers_.Sync(thread);
  for (int layer = 0; layer < config_.num_layers; ++layer) RunLayer(layer, thread);
  HeadAndSample(thread);
}

void Decoder::RunLayer(int layer, int thread) {
  const PackedLayer& w = weights_.layers()[layer];
  const float* previous_post_norm =
      layer == 0 ? nullptr : weights_.layers()[layer - 1].ffn_post_norm;
  AddAndNorm(previous_post_norm, w.attention_norm, w.attention_norm_bias, &w.qkv, thread);
  workers_.Sync(thread);
  MultiplyShared(thread, w.qkv,
                 ProductOf(w.qkv, scratch_.prepared_normed, scratch_.qkv, work_.rows));
  workers_.Sync(thread);
  RotateAndStore(layer, thread);
  workers_.Sync(thread);
  Attend(layer, thread);
  workers_.Sync(thread);
  ProjectToHidden(w.attention_output, scratch_.prepared_attended, w.attention_post_norm != nullptr,
                  thread);
  workers_.Sync(thread);
  AddAndNorm(w.attention_post_norm, w.ffn_norm, w.ffn_norm_bias, &w.up, thread);
  workers_.Sync(thread);
  FeedForwardUp(w.up, w.down, thread);
  workers_.Sync(thread);
  ProjectToHidden(w.down, scratch_.prepared_activated, w.ffn_post_norm != nullptr, thread);
  workers_.Sync(thread);
}

int Decoder::Grain(int count, int together) const {
  constexpr int kPiecesPerThread = 8;
  const int pieces = work_.threads * kPiecesPerThread;
  return std::max(count / pieces / together, 1) * together;
}

template <typename Body>
void Decoder::ForRows(int thread, int count, Body body) {
  workers_.Share(thread, count, Grain(count, 1), [&](Range rows) {
    for (int row = rows.begin; row < rows.end; ++row) body(row);
  });
}

template <typename Body>
void Decoder::ForPanels(int thread, int count, int together, Body body) {
  constexpr int kAtLeast = 4;  // what the widest tile of any product takes
  workers_.Share(thread, count, Grain(count, std::lcm(kAtLeast, together)), body);
}

MultiplyArgs Decoder::ProductOf(const PackedMatrix& matrix, const PreparedRows& a, const Rows& out,
                                int rows) const {
  return {.a = a.data,
          .a_stride = a.stride,
          .rows = rows,
          .panels = matrix.panels,
          .inputs = matrix.inputs,
          .panel_begin = 0,
          .panel_end = matrix.num_panels,
          .bias = matrix.bias,
          .out = out.data,
          .out_stride = out.stride};
}

void Decoder::MultiplyShared(int thread, const PackedMatrix& matrix, MultiplyArgs args) {
  ForPanels(thread, matrix.num_panels, 1, [&](Range panels) {
    args.panel_begin = panels.begin;
    args.panel_end = panels.end;
    matrix.product->multiply(args);
  });
}

void Decoder::Prepare(const PackedMatrix& next, const Rows& rows, const PreparedRows& prepared,
                      int row, int begin, int end) const {
  if (next.product->prepare == nullptr) return;
  next.product->prepare(rows.row(row), next.inputs, begin, end, prepared.row(row));
}

int Decoder::PreparedTogether(const PackedMatrix& next, int size) const {
  return next.product->prepare == nullptr ? 1 : std::lcm(size, next.product->group) / size;
}

void Decoder::Embed(int thread) {
  const model::Weights& w = model_->weights;
  const int size = config_.hidden_size;
  ForRows(thread, work_.rows, [&](int row) {
    float* out = scratch_.hidden.row(row);
    model::DequantizeRow(w.token_embedding.dtype,
                         w.token_embedding.row(work_.batch->token_ids[row]), size, out);
    for (int i = 0; i < size; ++i) out[i] *= config_.embedding_scale;
    if (!config_.learned_positions) return;
    float* position = scratch_.normed.row(row);
    model::DequantizeRow(w.position_embedding.dtype,
                         w.position_embedding.row(work_.batch->positions[row]), size, position);
    for (int i = 0; i < size; ++i) out[i] += position[i];
  });
}

void Decoder::Norm(const float* x, const float* weight, const float* bias, float* out) const {
  const auto norm =
      config_.norm == model::NormKind::kLayerNorm ? kernels_.layer_norm : kernels_.rms_norm;
  norm(x, weight, bias, config_.norm_epsilon, config_.hidden_size, out);
}

void Decoder::AddAndNorm(const float* post_norm, const float* norm, const float* norm_bias,
                         const PackedMatrix* next, int thread) {
  ForRows(thread, work_.rows, [&](int row) {
    float* hidden = scratch_.hidden.row(row);
    if (post_norm != nullptr) {
      float* projected = scratch_.projected.row(row);
      kernels_.rms_norm(projected, post_norm, nullptr, config_.norm_epsilon, config_.hidden_size,
                        projected);
      for (int i = 0; i < config_.hidden_size; ++i) hidden[i] += projected[i];
    }
    if (next == nullptr) return;
    Norm(hidden, norm, norm_bias, scratch_.normed.row(row));
    Prepare(*next, scratch_.normed, scratch_.prepared_normed, row, 0, config_.hidden_size);
  });
}

void Decoder::RotateAndStore(int layer, int thread) {
  const PackedLayer& w = weights_.layers()[layer];
  const KvLayerView view = work_.pool->view(layer);
  const int block_tokens = work_.pool->layout().block_tokens;
  const int head_dim = config_.head_dim;
  ForRows(thread, work_.rows, [&](int row) {
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
  });
}

AttendArgs Decoder::AttendArgsOf(int layer, int thread) const {
  const KvLayerView view = work_.pool->view(layer);
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
  AttendArgs args = AttendArgsOf(layer, thread);
  const PackedMatrix& next = weights_.layers()[layer].attention_output;
  const int together = PreparedTogether(next, args.heads * config_.head_dim);
  const int parts = (config_.num_kv_heads + together - 1) / together;  // of a tile
  const int count = static_cast<int>(tiles_.size()) * parts;
  workers_.Share(thread, count, Grain(count, 1), [&](Range range) {
    for (int i = range.begin; i < range.end; ++i) {
      AttendTile(tiles_[i / parts], layer, i % parts * together, args);
    }
  });
}

void Decoder::AttendTile(const Tile& tile, int layer, int first, AttendArgs& args) {
  const KvLayerView view = work_.pool->view(layer);
  const int size = args.heads * config_.head_dim;  // of a kv head's queries
  const PackedMatrix& next = weights_.layers()[layer].attention_output;
  const int behind = std::min(first + PreparedTogether(next, size), config_.num_kv_heads);
  args.tokens = tile.tokens;
  args.position = work_.batch->positions[tile.row];
  args.table = work_.batch->block_table(view.group, tile.sequence).data();
  for (int h = first; h < behind; ++h) {
    args.q = scratch_.qkv.row(tile.row) + int64_t{h} * size;
    args.out = scratch_.attended.row(tile.row) + int64_t{h} * size;
    args.keys = view.data + h * view.head_stride;
    kv_format_.attend(args);
  }
  for (int i = 0; i < tile.tokens; ++i) {
    Prepare(next, scratch_.attended, scratch_.prepared_attended, tile.row + i, first * size,
            behind * size);
  }
}

void Decoder::ProjectToHidden(const PackedMatrix& matrix, const PreparedRows& a, bool post_norm,
                              int thread) {
  MultiplyArgs args =
      ProductOf(matrix, a, post_norm ? scratch_.projected : scratch_.hidden, work_.rows);
  args.add_to_out = !post_norm;
  MultiplyShared(thread, matrix, args);
}

void Decoder::FeedForwardUp(const PackedMatrix& matrix, const PackedMatrix& next, int thread) {
  // A gate and its up are two neighbouring panels that one thread takes, and what is prepared
  // together is taken together, so neither the activation nor that needs a barrier.
  const int group = config_.gated_ffn ? 2 : 1;
  MultiplyArgs args = ProductOf(matrix, scratch_.prepared_normed, scratch_.up, work_.rows);
  const int together = PreparedTogether(next, kPanel);
  ForPanels(thread, matrix.num_panels / group, together, [&](Range outputs) {
    args.panel_begin = outputs.begin * group;
    args.panel_end = outputs.end * group;
    matrix.product->multiply(args);
    for (int row = 0; row < work_.rows; ++row) ActivateAndPrepare(next, row, outputs);
  });
}

void Decoder::ActivateAndPrepare(const PackedMatrix& next, int row, Range outputs) {
  const int group = config_.gated_ffn ? 2 : 1;
  const float* up = scratch_.up.row(row) + int64_t{outputs.begin} * group * kPanel;
  float* activated = scratch_.activated.row(row) + int64_t{outputs.begin} * kPanel;
  const int count = outputs.end - outputs.begin;
  if (config_.gated_ffn) {
    kernels_.activate_gated(config_.activation, up, count, activated);
  } else {
    kernels_.activate(config_.activation, up, count * kPanel, activated);
  }
  Prepare(next, scratch_.activated, scratch_.prepared_activated, row, outputs.begin * kPanel,
          std::min(outputs.end * kPanel, config_.intermediate_size));
}

void Decoder::HeadAndSample(int thread) {
  AddAndNorm(weights_.layers().back().ffn_post_norm, nullptr, nullptr, nullptr, thread);
  workers_.Sync(thread);
  const std::vector<sample::SampleSpec>& samples = work_.batch->samples;
  for (size_t begin = 0; begin < samples.size(); begin += kLogitRows) {
    const int count = static_cast<int>(std::min<size_t>(kLogitRows, samples.size() - begin));
    ForRows(thread, count, [&](int i) {
      Norm(scratch_.hidden.row(samples[begin + i].row), weights_.final_norm(),
           weights_.final_norm_bias(), scratch_.normed.row(i));
      Prepare(weights_.head(), scratch_.normed, scratch_.prepared_normed, i, 0,
              config_.hidden_size);
    });
    workers_.Sync(thread);
    MultiplyShared(thread, weights_.head(),
                   ProductOf(weights_.head(), scratch_.prepared_normed, scratch_.logits, count));
    workers_.Sync(thread);
    ForRows(thread, count, [&](int i) {
      samplers_[thread].Sample({scratch_.logits.row(i), static_cast<size_t>(config_.vocab_size)},
                               samples[begin + i], work_.sampled[begin + i]);
    });
    workers_.Sync(thread);
  }
}

}  // namespace luna::backend::cpu
