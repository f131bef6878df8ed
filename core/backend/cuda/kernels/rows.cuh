// What is done row by row: embeddings, norms of what is added, heads that are normed.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_ROWS_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_ROWS_CUH_

#include "core/backend/cuda/kernels/epilogue.cuh"
#include "core/backend/cuda/kernels/statistics.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

inline constexpr int kRowThreads = 256;
inline constexpr int kRowWarps = kRowThreads / kWarpSize;

LUNA_DEVICE float SumOverHalfWarp(float value) {
  for (int mask = kTileRows / 2; mask > 0; mask /= 2) value += ShuffleXor(value, mask);
  return value;
}

// row[i] = value(i) for i below `size`, and the moments of its tiles: half a warp has a tile.
template <typename Value>
LUNA_DEVICE void StoreRow(float* row, int size, Moments* moments, int moments_stride, Value value) {
  const int warp = ThreadIndex() / kWarpSize, lane = ThreadIndex() % kWarpSize;
  const int tiles = TilesOf(size);
  for (int pair = warp; 2 * pair < tiles; pair += kRowWarps) {
    const int tile = 2 * pair + lane / kTileRows, i = tile * kTileRows + lane % kTileRows;
    const bool inside = i < size;
    const float v = inside ? value(i) : 0.0f;
    if (inside) row[i] = v;
    const auto count = static_cast<float>(Smaller(kTileRows, size - tile * kTileRows));
    const float sum = SumOverHalfWarp(v);
    const float distance = inside ? v - sum / count : 0.0f;
    const float squares = SumOverHalfWarp(distance * distance);
    if (tile < tiles && lane % kTileRows == 0) {
      moments[int64_t{tile} * moments_stride] = {sum, squares};
    }
  }
}

LUNA_DEVICE float TableEntry(const void* table, bool is_bf16, int64_t i) {
  if (!is_bf16) return static_cast<const float*>(table)[i];
  return LowBf16(static_cast<const uint16_t*>(table)[i]);
}

// Grid: (any); blocks share out the tokens.
LUNA_KERNEL void LUNA_BLOCK_OF(kRowThreads, 1) Embed(const EmbedArgs args) {
  AwaitEarlierKernels();
  const StepHeader& header = *args.header;
  const auto* ids = At<int32_t>(&header, header.token_ids);
  const auto* positions = At<int32_t>(&header, header.positions);
  if (BlockIndexX() == 0) {
    for (int i = ThreadIndex(); i < args.num_sampled; i += BlockThreads()) {
      args.before[i] = args.sampled[i];
    }
  }
  for (int token = BlockIndexX(); token < header.num_tokens; token += GridX()) {
    const int32_t id = ids[token] < 0 ? args.sampled[-1 - ids[token]] : ids[token];
    const int64_t from = int64_t{id} * args.size;
    const int64_t position = int64_t{positions[token]} * args.size;
    StoreRow(args.hidden + int64_t{token} * args.hidden_stride, args.size, args.moments + token,
             args.moments_stride, [&](int i) {
               const float value = TableEntry(args.tokens, args.is_bf16, from + i) * args.scale;
               if (args.positions == nullptr) return value;
               return value + TableEntry(args.positions, args.is_bf16, position + i);
             });
  }
}

// Grid: (any); blocks share out the tokens. Shared memory: one Statistics.
LUNA_KERNEL void LUNA_BLOCK_OF(kRowThreads, 1) AddNorm(const AddNormArgs args) {
  auto& statistics = *reinterpret_cast<Statistics*>(SharedMemory());
  AwaitEarlierKernels();
  for (int token = BlockIndexX(); token < args.header->num_tokens; token += GridX()) {
    if (ThreadIndex() < kWarpSize) {
      const Statistics found = StatisticsOf(args.norm, token, ThreadIndex());
      if (ThreadIndex() == 0) statistics = found;
    }
    SyncThreads();
    const float scale = statistics.scale;
    const int64_t at = int64_t{token} * args.stride;
    StoreRow(args.hidden + at, args.norm.size, args.moments + token, args.moments_stride,
             [&](int i) {
               return args.hidden[at + i] + args.projected[at + i] * scale * args.norm.weight[i];
             });
    SyncThreads();
  }
}

LUNA_DEVICE float SumOverWarp(float value) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) value += ShuffleXor(value, mask);
  return value;
}

// Grid: (any); the warps of all blocks share out the heads of all tokens.
LUNA_KERNEL void LUNA_BLOCK_OF(kRowThreads, 1) FinishNormedHeads(const FinishHeadsArgs args) {
  AwaitEarlierKernels();
  const StepHeader& header = *args.header;
  const HeadsArgs& heads = args.heads;
  const auto* slots =
      At<KvSlot>(&header, At<GroupStep>(&header, header.groups)[heads.kv.group].slots);
  const auto* positions = At<int32_t>(&header, header.positions);
  const int warp = ThreadIndex() / kWarpSize, lane = ThreadIndex() % kWarpSize;
  const int per_token = heads.num_heads + 2 * heads.num_kv_heads;
  const int half = heads.head_dim / 2;
  for (int i = BlockIndexX() * kRowWarps + warp; i < header.num_tokens * per_token;
       i += GridX() * kRowWarps) {
    const int token = i / per_token, head = i % per_token;
    const float* x = args.qkv + int64_t{token} * args.qkv_stride + head * heads.head_dim;
    if (head >= heads.num_heads + heads.num_kv_heads) {
      for (int d = lane; d < heads.head_dim; d += kWarpSize) {
        StoreHead(heads, slots[token], token, head, d, x[d]);
      }
      continue;
    }
    const float* norm = head < heads.num_heads ? args.q_norm : args.k_norm;
    float squares = 0.0f;
    for (int p = lane; p < half; p += kWarpSize) {
      squares += x[p] * x[p] + x[p + half] * x[p + half];
    }
    const float mean_square = SumOverWarp(squares) / static_cast<float>(heads.head_dim);
    const float scale = 1.0f / sqrtf(mean_square + args.epsilon);
    for (int p = lane; p < half; p += kWarpSize) {
      const float a = x[p] * scale * norm[p], b = x[p + half] * scale * norm[p + half];
      const int64_t angle = int64_t{positions[token]} * half + p;
      const float cosine = heads.cosines[angle], sine = heads.sines[angle];
      StoreHead(heads, slots[token], token, head, p, a * cosine - b * sine);
      StoreHead(heads, slots[token], token, head, p + half, b * cosine + a * sine);
    }
  }
}

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_ROWS_CUH_
