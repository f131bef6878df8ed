#include "core/backend/cuda/decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace luna::backend::cuda {
namespace {

// Blocks of attention that a multiprocessor is to have.
constexpr int kAttentionBlocks = 2;
// Splits whose results may wait for the others of their queries.
constexpr int kMaxPartials = 512;
constexpr int64_t kFloat = sizeof(float);

int DivideUp(int a, int b) { return (a + b - 1) / b; }

const ProductKernels& ProductsOf(const KernelSet& kernels, WeightsFormat format) {
  switch (format) {
    case WeightsFormat::kF32:
      return kernels.f32_product;
    case WeightsFormat::kBf16:
      return kernels.bf16_product;
    default:
      return kernels.int8_product;
  }
}

ActivationKind KindOf(model::Activation activation) {
  switch (activation) {
    case model::Activation::kSilu:
      return ActivationKind::kSilu;
    case model::Activation::kGeluErf:
      return ActivationKind::kGeluErf;
    case model::Activation::kGeluTanh:
      break;
  }
  return ActivationKind::kGeluTanh;
}

}  // namespace

Decoder::Decoder(std::shared_ptr<const model::Model> model, const KernelSet& kernels,
                 const BackendOptions& options, Device& device)
    : model_(std::move(model)),
      config_(model_->config),
      kernels_(kernels),
      products_(ProductsOf(kernels, *options.weights)),
      options_(options),
      device_(device),
      max_tokens_(options.max_batch_tokens),
      hidden_stride_(RoundUpToGroup(config_.hidden_size)),
      attended_stride_(RoundUpToGroup(config_.q_size())),
      up_stride_(RoundUpToGroup(config_.intermediate_size)),
      qkv_stride_(RoundUpToGroup(config_.q_size() + 2 * config_.kv_size())),
      logits_stride_(RoundUpToGroup(config_.vocab_size)) {}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Make(std::shared_ptr<const model::Model> model,
                                                       const KernelSet& kernels,
                                                       const BackendOptions& options,
                                                       Device& device) {
  std::unique_ptr<Decoder> decoder(new Decoder(std::move(model), kernels, options, device));
  LUNA_RETURN_IF_ERROR(decoder->ChooseAttention());
  LUNA_RETURN_IF_ERROR(decoder->LoadKernels());
  LUNA_ASSIGN_OR_RETURN(decoder->weights_, DeviceWeights::Upload(*decoder->model_, *options.weights,
                                                                 device, options.on_progress));
  LUNA_RETURN_IF_ERROR(decoder->AllocateScratch());
  return decoder;
}

// The narrowest kernel that takes the heads for single tokens, the widest for chunks, among those
// whose shared memory this device has.
absl::Status Decoder::ChooseAttention() {
  const int heads = config_.num_heads / config_.num_kv_heads;
  const std::vector<AttentionKernel>& all =
      *options_.kv_dtype == KvDtype::kF32 ? kernels_.f32_attention : kernels_.bf16_attention;
  for (const AttentionKernel& kernel : all) {
    if (kernel.max_head_dim < config_.head_dim || kernel.columns < heads ||
        kernel.sized.shared_bytes > device_.info().shared_bytes) {
      continue;
    }
    if (narrow_attention_ == nullptr) narrow_attention_ = &kernel;
    if (kernel.max_head_dim == narrow_attention_->max_head_dim) wide_attention_ = &kernel;
  }
  if (narrow_attention_ == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        "no attention kernel for heads of ", config_.head_dim, " with ", heads,
        " query heads to a KV head and ", device_.info().shared_bytes, " bytes of shared memory"));
  }
  attention_plan_ = {.heads = heads,
                     .num_kv_heads = config_.num_kv_heads,
                     .narrow_columns = narrow_attention_->columns,
                     .wide_columns = wide_attention_->columns,
                     .target_blocks = kAttentionBlocks * device_.info().multiprocessors,
                     .max_partials = kMaxPartials,
                     .max_splits = DivideUp(config_.context_length, kSplitTokens)};
  return absl::OkStatus();
}

absl::Status Decoder::LoadKernels() {
  std::vector<SizedKernel> used = {products_.wide,         narrow_attention_->sized,
                                   wide_attention_->sized, {kernels_.embed, 0},
                                   kernels_.add_norm,      {kernels_.finish_normed_heads, 0},
                                   kernels_.sample};
  used.insert(used.end(), products_.narrow.begin(), products_.narrow.end());
  for (const SizedKernel& kernel : used) {
    LUNA_RETURN_IF_ERROR(device_.Load(kernel.kernel, kernel.shared_bytes));
  }
  return absl::OkStatus();
}

absl::Status Decoder::Room(const char* purpose, int64_t count, int64_t element, DeviceMemory& out) {
  LUNA_ASSIGN_OR_RETURN(out, DeviceMemory::Allocate(device_, purpose, count * element));
  return device_.Fill(out.as(), 0, out.bytes());
}

absl::Status Decoder::AllocateScratch() {
  const int64_t tokens = max_tokens_;
  const int64_t moments = TilesOf(config_.hidden_size) * tokens;
  LUNA_RETURN_IF_ERROR(Room("hidden states", tokens * hidden_stride_, kFloat, hidden_));
  LUNA_RETURN_IF_ERROR(Room("moments", moments, sizeof(Moments), moments_));
  const model::LayerWeights& first = model_->weights.layers.front();
  if (first.attention_post_norm || first.ffn_post_norm) {
    LUNA_RETURN_IF_ERROR(Room("projections", tokens * hidden_stride_, kFloat, projected_));
    LUNA_RETURN_IF_ERROR(Room("moments", moments, sizeof(Moments), projected_moments_));
  }
  if (first.q_norm) {
    LUNA_RETURN_IF_ERROR(Room("heads", tokens * qkv_stride_, kFloat, qkv_));
  }
  LUNA_RETURN_IF_ERROR(Room("queries", tokens * attended_stride_, kFloat, q_));
  LUNA_RETURN_IF_ERROR(Room("attention", tokens * attended_stride_, kFloat, attended_));
  LUNA_RETURN_IF_ERROR(Room("activations", tokens * up_stride_, kFloat, up_));
  LUNA_RETURN_IF_ERROR(Room("logits", kLogitRows * logits_stride_, kFloat, logits_));
  LUNA_RETURN_IF_ERROR(
      Room("partial attention",
           int64_t{kMaxPartials} * config_.num_kv_heads * attention_plan_.wide_columns *
               (PaddedHeadDim(config_.head_dim) + 2),
           kFloat, partials_));
  return Room("tickets", int64_t{kMaxPartials} * config_.num_kv_heads, sizeof(uint32_t), tickets_);
}

void Decoder::SetKv(const KvGeometry& geometry, std::byte* data) {
  geometry_ = geometry;
  kv_data_ = data;
}

absl::Status Decoder::LaunchKernel(const SizedKernel& kernel, const Grid& grid, const void* args) {
  return device_.Launch(kernel.kernel, grid, kernel.shared_bytes, args);
}

absl::Status Decoder::Launch(const StepShape& shape) {
  LUNA_RETURN_IF_ERROR(LaunchEmbed(shape));
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    LUNA_RETURN_IF_ERROR(LaunchLayer(layer, shape));
  }
  for (int first = 0; first < shape.samples; first += kLogitRows) {
    LUNA_RETURN_IF_ERROR(LaunchSamples(first, shape));
  }
  return absl::OkStatus();
}

absl::Status Decoder::LaunchEmbed(const StepShape& shape) {
  const EmbedArgs args = {.header = step_.header,
                          .tokens = weights_.token_embedding(),
                          .positions = weights_.position_embedding(),
                          .is_bf16 = weights_.embeddings_are_bf16(),
                          .size = config_.hidden_size,
                          .scale = config_.embedding_scale,
                          .sampled = step_.results.tokens,
                          .before = step_.tokens_before,
                          .num_sampled = max_tokens_,
                          .hidden = hidden_.as<float>(),
                          .hidden_stride = hidden_stride_,
                          .moments = moments_.as<Moments>(),
                          .moments_stride = max_tokens_};
  return device_.Launch(kernels_.embed, {.x = shape.tokens}, 0, &args);
}

absl::Status Decoder::LaunchLayer(int layer, const StepShape& shape) {
  const DeviceLayer& w = weights_.layers()[layer];
  LUNA_RETURN_IF_ERROR(LaunchHeads(layer, shape));
  LUNA_RETURN_IF_ERROR(LaunchAttention(layer, shape));
  LUNA_RETURN_IF_ERROR(LaunchResidual(w.attention_output, attended_, attended_stride_,
                                      w.attention_post_norm, shape));
  LUNA_RETURN_IF_ERROR(LaunchUp(w, shape));
  return LaunchResidual(w.down, up_, up_stride_, w.ffn_post_norm, shape);
}

absl::Status Decoder::LaunchHeads(int layer, const StepShape& shape) {
  const DeviceLayer& w = weights_.layers()[layer];
  ProductArgs args = ProductOf(w.qkv, hidden_, hidden_stride_);
  args.norm = NormOfHidden(w.attention_norm, w.attention_norm_bias);
  args.heads = HeadsOf(layer);
  if (w.q_norm == nullptr) {
    args.epilogue = Epilogue::kHeads;
    return LaunchProduct(args, shape.tokens);
  }
  args.epilogue = Epilogue::kStore;
  args.outputs = config_.q_size() + 2 * config_.kv_size();
  args.out = qkv_.as<float>();
  args.out_stride = qkv_stride_;
  LUNA_RETURN_IF_ERROR(LaunchProduct(args, shape.tokens));
  const FinishHeadsArgs finish = {.header = step_.header,
                                  .qkv = qkv_.as<float>(),
                                  .qkv_stride = qkv_stride_,
                                  .q_norm = w.q_norm,
                                  .k_norm = w.k_norm,
                                  .epsilon = config_.norm_epsilon,
                                  .heads = args.heads};
  return device_.Launch(kernels_.finish_normed_heads, {.x = shape.tokens}, 0, &finish);
}

absl::Status Decoder::LaunchAttention(int layer, const StepShape& shape) {
  const AttentionKernel& kernel = shape.narrow_attention ? *narrow_attention_ : *wide_attention_;
  const AttentionArgs args = {.header = step_.header,
                              .q = q_.as<float>(),
                              .q_stride = attended_stride_,
                              .kv = KvOf(layer),
                              .num_kv_heads = config_.num_kv_heads,
                              .heads = attention_plan_.heads,
                              .head_dim = config_.head_dim,
                              .window = config_.layers[layer].sliding_window,
                              .scale = config_.attention_scale,
                              .out = attended_.as<float>(),
                              .out_stride = attended_stride_,
                              .partials = partials_.as<float>(),
                              .tickets = tickets_.as<uint32_t>()};
  // More only wait for one another.
  const int most = DivideUp(2 * attention_plan_.target_blocks, config_.num_kv_heads);
  const int blocks = std::clamp(shape.attention_items, 1, std::max(1, most));
  return LaunchKernel(kernel.sized, {.x = blocks, .y = config_.num_kv_heads}, &args);
}

absl::Status Decoder::LaunchResidual(const DeviceMatrix& matrix, const DeviceMemory& x,
                                     int x_stride, const float* post_norm, const StepShape& shape) {
  ProductArgs args = ProductOf(matrix, x, x_stride);
  args.epilogue = Epilogue::kStore;
  args.outputs = config_.hidden_size;
  args.out_stride = hidden_stride_;
  args.moments_stride = max_tokens_;
  if (post_norm == nullptr) {
    args.add = 1;
    args.out = hidden_.as<float>();
    args.moments = moments_.as<Moments>();
    return LaunchProduct(args, shape.tokens);
  }
  args.out = projected_.as<float>();
  args.moments = projected_moments_.as<Moments>();
  LUNA_RETURN_IF_ERROR(LaunchProduct(args, shape.tokens));
  const AddNormArgs add = {.header = step_.header,
                           .projected = projected_.as<float>(),
                           .norm = {.kind = Norm::kRmsNorm,
                                    .weight = post_norm,
                                    .bias = nullptr,
                                    .moments = projected_moments_.as<Moments>(),
                                    .moments_stride = max_tokens_,
                                    .size = config_.hidden_size,
                                    .epsilon = config_.norm_epsilon},
                           .hidden = hidden_.as<float>(),
                           .stride = hidden_stride_,
                           .moments = moments_.as<Moments>(),
                           .moments_stride = max_tokens_};
  return LaunchKernel(kernels_.add_norm, {.x = shape.tokens}, &add);
}

absl::Status Decoder::LaunchUp(const DeviceLayer& layer, const StepShape& shape) {
  ProductArgs args = ProductOf(layer.up, hidden_, hidden_stride_);
  args.norm = NormOfHidden(layer.ffn_norm, layer.ffn_norm_bias);
  args.epilogue = Epilogue::kActivate;
  args.outputs = config_.intermediate_size;
  args.gated = config_.gated_ffn;
  args.activation = KindOf(config_.activation);
  args.out = up_.as<float>();
  args.out_stride = up_stride_;
  return LaunchProduct(args, shape.tokens);
}

absl::Status Decoder::LaunchSamples(int first, const StepShape& shape) {
  ProductArgs args = ProductOf(weights_.head(), hidden_, hidden_stride_);
  args.for_samples = 1;
  args.first_sample = first;
  args.norm = NormOfHidden(weights_.final_norm(), weights_.final_norm_bias());
  args.epilogue = Epilogue::kStore;
  args.outputs = config_.vocab_size;
  args.out = logits_.as<float>();
  args.out_stride = logits_stride_;
  const int count = std::min(kLogitRows, shape.samples - first);
  LUNA_RETURN_IF_ERROR(LaunchProduct(args, count));
  const SampleArgs sample = {.header = step_.sampling,
                             .first_row = first,
                             .max_rows = kLogitRows,
                             .logits = logits_.as<float>(),
                             .tokens_before = step_.tokens_before,
                             .results = step_.results,
                             .vocab_size = config_.vocab_size,
                             .vocab_stride = static_cast<int32_t>(logits_stride_)};
  return LaunchKernel(kernels_.sample, {.x = count}, &sample);
}

ProductArgs Decoder::ProductOf(const DeviceMatrix& matrix, const DeviceMemory& x,
                               int x_stride) const {
  ProductArgs args = {};
  args.header = step_.header;
  args.weights = matrix.weights;
  args.scales = matrix.scales;
  args.bias = matrix.bias;
  args.tiles = matrix.tiles;
  args.groups = matrix.groups;
  args.x = x.as<float>();
  args.x_stride = x_stride;
  return args;
}

NormArgs Decoder::NormOfHidden(const float* weight, const float* bias) const {
  return {.kind = config_.norm == model::NormKind::kLayerNorm ? Norm::kLayerNorm : Norm::kRmsNorm,
          .weight = weight,
          .bias = bias == nullptr ? weights_.zeros() : bias,
          .moments = moments_.as<Moments>(),
          .moments_stride = max_tokens_,
          .size = config_.hidden_size,
          .epsilon = config_.norm_epsilon};
}

HeadsArgs Decoder::HeadsOf(int layer) const {
  return {.num_heads = config_.num_heads,
          .num_kv_heads = config_.num_kv_heads,
          .head_dim = config_.head_dim,
          .rotated = !config_.learned_positions,
          .cosines = weights_.layers()[layer].cosines,
          .sines = weights_.layers()[layer].sines,
          .q = q_.as<float>(),
          .q_stride = attended_stride_,
          .kv = KvOf(layer)};
}

DeviceKv Decoder::KvOf(int layer) const {
  const KvLayerPlace& place = geometry_.place(layer);
  return {.data = kv_data_ + place.offset,
          .block_stride = place.block_stride,
          .head_stride = place.head_stride,
          .values_offset = place.values_offset,
          .group = place.group,
          .padded_dim = PaddedHeadDim(config_.head_dim),
          .block_tokens = geometry_.layout().block_tokens,
          .is_bf16 = *options_.kv_dtype == KvDtype::kBf16};
}

// Few tokens: in as few columns of blocks as keep every multiprocessor at work.
absl::Status Decoder::LaunchProduct(const ProductArgs& args, int columns) {
  constexpr auto& kTokens = ProductKernels::kNarrowTokens;
  if (columns > kTokens.back()) {
    return LaunchKernel(products_.wide,
                        {.x = DivideUp(args.tiles, products_.wide_tiles),
                         .y = DivideUp(columns, products_.wide_tokens)},
                        &args);
  }
  size_t i = 0;
  while (kTokens[i] < columns) ++i;
  const auto blocks = [&] { return DivideUp(columns, kTokens[i]); };
  while (i > 0 && args.tiles * blocks() < device_.info().multiprocessors) --i;
  return LaunchKernel(products_.narrow[i], {.x = args.tiles, .y = blocks()}, &args);
}

}  // namespace luna::backend::cuda
