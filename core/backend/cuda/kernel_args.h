// The arguments of the kernels: structs by value, with pointers into the device's memory.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNEL_ARGS_H_
#define LUNA_CORE_BACKEND_CUDA_KERNEL_ARGS_H_

#include <cstddef>
#include <cstdint>

#include "core/backend/cuda/step_layout.h"

namespace luna::backend::cuda {

enum class Norm : int32_t { kNone, kLayerNorm, kRmsNorm };
enum class ActivationKind : int32_t { kGeluTanh, kGeluErf, kSilu };

// Rows of hidden states, their moments beside them: of token i and tile t at moments[t *
// moments_stride + i].
struct NormArgs {
  Norm kind;
  const float* weight;  // [size], zeros behind it up to a multiple of kGroupInputs
  const float* bias;    // the same
  const Moments* moments;
  int32_t moments_stride;
  int32_t size;
  float epsilon;
};

// One layer's keys and values: backend::KvLayerView on the device. Keys (and values) of a block and
// head are [block_tokens, padded_dim].
struct DeviceKv {
  std::byte* data;
  int64_t block_stride, head_stride, values_offset;  // bytes
  int32_t group;
  int32_t padded_dim;
  int32_t block_tokens;
  int32_t is_bf16;  // else f32
};

// How a product's outputs are divided into heads: queries, then keys, then values, each head in
// padded_dim / kTileRows tiles. Rotated heads have the pairs (i, i + half) in rows r and r + 8 of a
// tile; the others their dimensions in order.
struct HeadsArgs {
  int32_t num_heads, num_kv_heads, head_dim;
  int32_t rotated;
  const float* cosines;  // [context, head_dim / 2], where rotated
  const float* sines;
  float* q;  // [tokens, q_stride]
  int32_t q_stride;
  DeviceKv kv;
};

enum class Epilogue : int32_t {
  kStore,     // out = y, or out + y; with its moments where there is room for them
  kActivate,  // out = activation(y), or activation(gate) * up
  kHeads      // rotates, then queries to scratch, keys and values to their slots
};

// y = norm(x) w + bias for each of the step's tokens, or of its samples.
struct ProductArgs {
  const StepHeader* header;
  const std::byte* weights;  // [tiles, groups] fragments, as the format has them
  const float* scales;       // int8: [tiles, groups, kTileRows]
  const float* bias;         // [tiles, kTileRows] or null
  int32_t tiles, groups;
  int32_t outputs;  // values of a token in `out`; of what is activated, the activated ones

  const float* x;  // [tokens, x_stride], zeros up to groups * kGroupInputs
  int32_t x_stride;
  // The columns are samples of the step, x their tokens' rows: of those from `first_sample` on
  // kLogitRows at most.
  int32_t for_samples;
  int32_t first_sample;
  NormArgs norm;

  Epilogue epilogue;
  int32_t add;    // kStore
  int32_t gated;  // kActivate: rows r of a tile are gates, r + 8 the same outputs' ups
  ActivationKind activation;
  float* out;  // [columns, out_stride]
  int64_t out_stride;
  Moments* moments;  // of out, or null
  int32_t moments_stride;
  HeadsArgs heads;
};

struct EmbedArgs {
  const StepHeader* header;
  const void* tokens;     // [vocab, size], f32 or bf16
  const void* positions;  // [context, size], likewise, or null
  int32_t is_bf16;
  int32_t size;
  float scale;
  // [num_sampled] ids that the step before chose; copied to `before`, since this step's sampling
  // needs them while it writes its own.
  const int32_t* sampled;
  int32_t* before;
  int32_t num_sampled;
  float* hidden;  // [tokens, hidden_stride]
  int32_t hidden_stride;
  Moments* moments;
  int32_t moments_stride;
};

// hidden += norm(projected), with the moments of what comes out.
struct AddNormArgs {
  const StepHeader* header;
  const float* projected;  // [tokens, stride]
  NormArgs norm;           // of projected
  float* hidden;           // [tokens, stride]
  int32_t stride;
  Moments* moments;
  int32_t moments_stride;
};

// For models that norm their heads: takes queries, keys and values from `qkv`, norms and rotates
// the first two, stores as HeadsArgs says.
struct FinishHeadsArgs {
  const StepHeader* header;
  const float* qkv;  // [tokens, qkv_stride]: heads of head_dim
  int32_t qkv_stride;
  const float* q_norm;  // [head_dim]
  const float* k_norm;
  float epsilon;
  HeadsArgs heads;
};

struct AttentionArgs {
  const StepHeader* header;
  const float* q;  // [tokens, q_stride]
  int32_t q_stride;
  DeviceKv kv;
  int32_t num_kv_heads;
  int32_t heads;  // query heads of a KV head
  int32_t head_dim;
  int32_t window;  // 0: none
  float scale;
  float* out;  // [tokens, out_stride], heads of head_dim
  int32_t out_stride;
  // [partials][num_kv_heads][columns of the kernel][padded_dim + 2]: largest, sum, then values
  float* partials;
  uint32_t* tickets;  // [tickets, num_kv_heads], all zero between launches
};

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNEL_ARGS_H_
