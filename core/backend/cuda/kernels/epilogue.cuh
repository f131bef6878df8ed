// What becomes of a product's outputs: a warp has kTileRows of them for eight columns, in the
// layout of MmaBf16's c. Called by whole warps.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_EPILOGUE_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_EPILOGUE_CUH_

#include "core/backend/cuda/kernel_args.h"
#include "core/backend/cuda/kernels/common.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

LUNA_DEVICE float Activate(ActivationKind kind, float x) {
  switch (kind) {
    case ActivationKind::kSilu:
      return x / (1.0f + expf(-x));
    case ActivationKind::kGeluErf:
      return 0.5f * x * (1.0f + erff(x * 0.707106781f));
    case ActivationKind::kGeluTanh:
      break;
  }
  // 0.5 x (1 + tanh(u)) = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
  const float twice_u = 1.59576912f * (x + 0.044715f * x * x * x);
  return x / (1.0f + expf(-twice_u));
}

// --- keys and values -----------------------------------------------------------------------------

LUNA_DEVICE std::byte* KvHead(const DeviceKv& kv, int block, int head, bool values) {
  return kv.data + block * kv.block_stride + head * kv.head_stride +
         (values ? kv.values_offset : int64_t{0});
}

LUNA_DEVICE void StoreKv(const DeviceKv& kv, std::byte* head, int offset, int dim, float value) {
  const int64_t i = int64_t{offset} * kv.padded_dim + dim;
  if (kv.is_bf16) {
    reinterpret_cast<uint16_t*>(head)[i] = static_cast<uint16_t>(PackBf16(value, 0.0f));
  } else {
    reinterpret_cast<float*>(head)[i] = value;
  }
}

// Stores dimension `dim` of head `head` (queries, keys and values counted through) of one token.
LUNA_DEVICE void StoreHead(const HeadsArgs& args, const KvSlot& slot, int row, int head, int dim,
                           float value) {
  if (head < args.num_heads) {
    if (dim < args.head_dim)
      args.q[int64_t{row} * args.q_stride + head * args.head_dim + dim] = value;
    return;
  }
  const int kv_head = head - args.num_heads;
  const bool values = kv_head >= args.num_kv_heads;
  StoreKv(args.kv,
          KvHead(args.kv, slot.block, values ? kv_head - args.num_kv_heads : kv_head, values),
          slot.offset, dim, value);
}

// --- the epilogues -------------------------------------------------------------------------------

// The moments of rows `row` and row + 8 of each column, kTileRows rows in all, of which the first
// `count` are there.
LUNA_DEVICE void StoreMoments(const float (&c)[4], int count, int first_column, int num_columns,
                              Moments* moments, int lane) {
  const int row = lane / 4;
  const bool first = row < count, second = row + 8 < count;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float sum = SumOverRows((first ? c[j] : 0.0f) + (second ? c[2 + j] : 0.0f));
    const float mean = sum / static_cast<float>(count);
    const float a = first ? c[j] - mean : 0.0f, b = second ? c[2 + j] - mean : 0.0f;
    const float squares = SumOverRows(a * a + b * b);
    const int column = first_column + lane % 4 * 2 + j;
    if (row == 0 && column < num_columns) moments[column] = {sum, squares};
  }
}

LUNA_DEVICE void FinishStore(const ProductArgs& args, int tile, int first_column, int num_columns,
                             float (&c)[4], int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int output = tile * kTileRows + lane / 4 + i / 2 * 8;
    const int column = first_column + lane % 4 * 2 + i % 2;
    if (output >= args.outputs || column >= num_columns) continue;
    float* out = args.out + column * args.out_stride + output;
    if (args.add) c[i] += *out;
    *out = c[i];
  }
  if (args.moments == nullptr) return;
  StoreMoments(c, Smaller(kTileRows, args.outputs - tile * kTileRows), first_column, num_columns,
               args.moments + int64_t{tile} * args.moments_stride, lane);
}

LUNA_DEVICE void FinishActivate(const ProductArgs& args, int tile, int first_column,
                                int num_columns, const float (&c)[4], int lane) {
  const int rows = args.gated ? kTileRows / 2 : kTileRows;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (args.gated && i >= 2) continue;
    const int output = tile * rows + lane / 4 + i / 2 * 8;
    const int column = first_column + lane % 4 * 2 + i % 2;
    if (output >= args.outputs || column >= num_columns) continue;
    const float value = Activate(args.activation, c[i]);
    args.out[column * args.out_stride + output] = args.gated ? value * c[(2 + i) % 4] : value;
  }
}

LUNA_DEVICE void FinishHeads(const ProductArgs& args, int tile, int first_column, int num_columns,
                             const float (&c)[4], int lane) {
  const HeadsArgs& heads = args.heads;
  const int tiles_per_head = heads.kv.padded_dim / kTileRows;
  const int head = tile / tiles_per_head, part = tile % tiles_per_head;
  const int half = heads.head_dim / 2;
  const bool rotated = heads.rotated && head < heads.num_heads + heads.num_kv_heads;
  const auto* slots = At<KvSlot>(
      args.header, At<GroupStep>(args.header, args.header->groups)[heads.kv.group].slots);
  const auto* positions = At<int32_t>(args.header, args.header->positions);
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int column = first_column + lane % 4 * 2 + j;
    if (column >= num_columns) continue;
    if (!rotated) {
      const int dim = part * kTileRows + lane / 4;
      StoreHead(heads, slots[column], column, head, dim, c[j]);
      StoreHead(heads, slots[column], column, head, dim + 8, c[2 + j]);
      continue;
    }
    const int pair = part * 8 + lane / 4;
    if (pair >= half) continue;
    const int64_t angle = int64_t{positions[column]} * half + pair;
    const float cosine = heads.cosines[angle], sine = heads.sines[angle];
    StoreHead(heads, slots[column], column, head, pair, c[j] * cosine - c[2 + j] * sine);
    StoreHead(heads, slots[column], column, head, pair + half, c[2 + j] * cosine + c[j] * sine);
  }
}

LUNA_DEVICE void Finish(const ProductArgs& args, int tile, int first_column, int num_columns,
                        float (&c)[4], int lane) {
  if (args.bias != nullptr) {
    const float* bias = args.bias + tile * kTileRows + lane / 4;
    c[0] += bias[0];
    c[1] += bias[0];
    c[2] += bias[8];
    c[3] += bias[8];
  }
  switch (args.epilogue) {
    case Epilogue::kStore:
      return FinishStore(args, tile, first_column, num_columns, c, lane);
    case Epilogue::kActivate:
      return FinishActivate(args, tile, first_column, num_columns, c, lane);
    case Epilogue::kHeads:
      return FinishHeads(args, tile, first_column, num_columns, c, lane);
  }
}

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_EPILOGUE_CUH_
