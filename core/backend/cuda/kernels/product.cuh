// Products of all tokens with a matrix, norms before and epilogues behind them fused in. Two
// kernels, one for few tokens and one for many; both sum an output as step_layout.h says, so that a
// token's bits do not depend on how many others there are.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_PRODUCT_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_PRODUCT_CUH_

#include "core/backend/cuda/kernels/epilogue.cuh"
#include "core/backend/cuda/kernels/formats.cuh"
#include "core/backend/cuda/kernels/statistics.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

inline constexpr int kProductThreads = kParts * kWarpSize;

struct ProductColumns {
  const int32_t* rows;  // of x, or null: column i is row i
  int count;
};

LUNA_DEVICE ProductColumns ColumnsOf(const ProductArgs& args) {
  const StepHeader& header = *args.header;
  if (args.for_samples) {
    return {At<int32_t>(&header, header.sample_rows) + args.first_sample,
            Smaller(kLogitRows, header.num_samples - args.first_sample)};
  }
  return {nullptr, header.num_tokens};
}

// Rows and statistics of kCount columns from `first` on, to shared memory. Ends with a barrier.
template <int kCount, bool kNormed>
LUNA_DEVICE void PrepareColumns(const ProductArgs& args, const ProductColumns& columns, int first,
                                int* rows, Statistics* statistics) {
  for (int i = ThreadIndex(); i < kCount * kStatisticsLanes; i += BlockThreads()) {
    const int column = first + i / kStatisticsLanes;
    const bool there = column < columns.count;
    const int row = !there ? -1 : columns.rows == nullptr ? column : columns.rows[column];
    Statistics found = {0.0f, 1.0f};
    if constexpr (kNormed) found = StatisticsOf(args.norm, there ? row : 0, i);
    if (i % kStatisticsLanes == 0) {
      rows[i / kStatisticsLanes] = row;
      statistics[i / kStatisticsLanes] = found;
    }
  }
  SyncThreads();
}

// acc += one group of a tile times what `read(step, column tile)` gives.
template <typename Format, int kColumnTiles, typename Read>
LUNA_DEVICE void MultiplyGroup(const ProductArgs& args, int tile, int group, int lane,
                               float (&acc)[kColumnTiles][4], Read read) {
  const int64_t index = int64_t{tile} * args.groups + group;
  const typename Format::Weights weights =
      Format::Load(args.weights + index * Format::kGroupBytes, lane);
  float scales[2] = {};
  if constexpr (Format::kScaled) {
    const float* scale = args.scales + index * kTileRows + lane / 4;
    scales[0] = scale[0];
    scales[1] = scale[8];
  }
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
    if constexpr (Format::kScaled) {
      float sum[4] = {};
#pragma unroll
      for (int step = 0; step < kSteps; ++step) Format::Multiply(sum, weights, step, read(step, c));
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[c][i] = fmaf(scales[i / 2], sum[i], acc[c][i]);
    } else {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        Format::Multiply(acc[c], weights, step, read(step, c));
      }
    }
  }
}

// --- few tokens ----------------------------------------------------------------------------------

template <int kColumnTiles>
struct NarrowShared {
  int rows[kColumnTiles * kTileTokens];
  Statistics statistics[kColumnTiles * kTileTokens];
  Float4 parts[kParts][kColumnTiles][kWarpSize];
};

// A block's work, on one tile and kColumnTiles * kTileTokens columns.
template <typename Format, int kColumnTiles, bool kNormed>
LUNA_DEVICE void MultiplyNarrow(const ProductArgs& args, const ProductColumns& columns) {
  auto& shared = *reinterpret_cast<NarrowShared<kColumnTiles>*>(SharedMemory());
  constexpr int kColumns = kColumnTiles * kTileTokens;
  const int first_column = BlockIndexY() * kColumns;
  PrepareColumns<kColumns, kNormed>(args, columns, first_column, shared.rows, shared.statistics);

  const int tile = BlockIndexX();
  const int part = ThreadIndex() / kWarpSize, lane = ThreadIndex() % kWarpSize;
  const int per_part = GroupsPerPart(args.groups);
  const int begin = part * per_part, end = Smaller(args.groups, begin + per_part);
  const Inputs<kNormed> inputs = {args.x, args.x_stride, args.norm.weight, args.norm.bias};
  float acc[kColumnTiles][4] = {};
#pragma unroll Format::kUnrolledGroups
  for (int group = begin; group < end; ++group) {
    MultiplyGroup<Format>(args, tile, group, lane, acc, [&](int step, int c) {
      int rows[Format::kLaneColumns];
      Statistics statistics[Format::kLaneColumns];
#pragma unroll
      for (int i = 0; i < Format::kLaneColumns; ++i) {
        const int column = c * kTileTokens + Format::Column(lane, i);
        rows[i] = shared.rows[column];
        statistics[i] = shared.statistics[column];
      }
      return Format::Read(inputs, rows, statistics, group * kGroupInputs + step * kStepInputs,
                          lane);
    });
  }
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
    shared.parts[part][c][lane] = {acc[c][0], acc[c][1], acc[c][2], acc[c][3]};
  }
  SyncThreads();

  for (int c = part; c < kColumnTiles; c += kParts) {
    if (first_column + c * kTileTokens >= columns.count) break;
    float total[4] = {};
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      if (p * per_part >= args.groups) break;
      const Float4 of_part = shared.parts[p][c][lane];
      const float values[4] = {of_part.x, of_part.y, of_part.z, of_part.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) total[i] = p == 0 ? values[i] : total[i] + values[i];
    }
    Finish(args, tile, first_column + c * kTileTokens, columns.count, total, lane);
  }
}

// Grid: (tiles, columns / (kColumnTiles * kTileTokens) rounded up). Each warp of a block has one
// part of the inputs, so that all of the device reads weights.
template <typename Format, int kColumnTiles>
LUNA_KERNEL void LUNA_BLOCK_OF(kProductThreads, 1) NarrowProduct(const ProductArgs args) {
  const ProductColumns columns = ColumnsOf(args);
  if (columns.count <= static_cast<int>(BlockIndexY()) * kColumnTiles * kTileTokens) return;
  if (args.norm.kind == Norm::kNone) {
    MultiplyNarrow<Format, kColumnTiles, false>(args, columns);
  } else {
    MultiplyNarrow<Format, kColumnTiles, true>(args, columns);
  }
}

// --- many tokens ---------------------------------------------------------------------------------

inline constexpr int kWideTiles = 4;                           // of a block
inline constexpr int kWideColumnTiles = 8;                     // of a block
inline constexpr int kWarpColumnTiles = kWideColumnTiles / 2;  // of a warp
inline constexpr int kWideColumns = kWideColumnTiles * kTileTokens;

struct WideShared {
  int rows[kWideColumns];
  Statistics statistics[kWideColumns];
  // Twice: one group is multiplied while the next is staged.
  alignas(16) std::byte staged[2][kWideColumnTiles][kStagedBytes];
};

// A block takes kWideTiles tiles and kWideColumns tokens, whose inputs it prepares once for all its
// warps; a warp has one tile and half of the tokens.
template <typename Format, bool kNormed>
LUNA_DEVICE void MultiplyWide(const ProductArgs& args, const ProductColumns& columns) {
  auto& shared = *reinterpret_cast<WideShared*>(SharedMemory());
  const int first_column = BlockIndexY() * kWideColumns;
  PrepareColumns<kWideColumns, kNormed>(args, columns, first_column, shared.rows,
                                        shared.statistics);

  const int warp = ThreadIndex() / kWarpSize, lane = ThreadIndex() % kWarpSize;
  const int tile = BlockIndexX() * kWideTiles + warp % kWideTiles;
  const int first_tile = warp / kWideTiles * kWarpColumnTiles;  // of columns
  const bool has_tile = tile < args.tiles;

  // What this thread stages: a quarter of one token's inputs.
  const Inputs<kNormed> inputs = {args.x, args.x_stride, args.norm.weight, args.norm.bias};
  const int column = ThreadIndex() / 4, quarter = ThreadIndex() % 4;
  const int row = shared.rows[column];
  const Statistics statistics = shared.statistics[column];
  const auto stage = [&](int group) {
    float values[8];
    const int k = group * kGroupInputs + quarter * 8;
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      const Float2 pair = inputs.Pair(row, statistics, k + i);
      values[i] = pair.x;
      values[i + 1] = pair.y;
    }
    Format::Stage(values, column % kTileTokens, quarter,
                  shared.staged[group % 2][column / kTileTokens]);
  };

  const int per_part = GroupsPerPart(args.groups);
  float total[kWarpColumnTiles][4], acc[kWarpColumnTiles][4] = {};
  stage(0);
  for (int group = 0; group < args.groups; ++group) {
    SyncThreads();
    if (group + 1 < args.groups) stage(group + 1);
    if (!has_tile) continue;
    MultiplyGroup<Format>(args, tile, group, lane, acc, [&](int step, int c) {
      return Format::ReadStaged(shared.staged[group % 2][first_tile + c], step, lane);
    });
    if ((group + 1) % per_part != 0 && group + 1 != args.groups) continue;
#pragma unroll
    for (int c = 0; c < kWarpColumnTiles; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[c][i] = group < per_part ? acc[c][i] : total[c][i] + acc[c][i];
        acc[c][i] = 0.0f;
      }
    }
  }
  if (!has_tile) return;
#pragma unroll
  for (int c = 0; c < kWarpColumnTiles; ++c) {
    const int at = first_column + (first_tile + c) * kTileTokens;
    if (at < columns.count) Finish(args, tile, at, columns.count, total[c], lane);
  }
}

// Grid: (tiles / kWideTiles, tokens / kWideColumns), rounded up.
template <typename Format>
LUNA_KERNEL void LUNA_BLOCK_OF(kProductThreads, 2) WideProduct(const ProductArgs args) {
  const ProductColumns columns = ColumnsOf(args);
  if (columns.count <= static_cast<int>(BlockIndexY()) * kWideColumns) return;
  if (args.norm.kind == Norm::kNone) {
    MultiplyWide<Format, false>(args, columns);
  } else {
    MultiplyWide<Format, true>(args, columns);
  }
}

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_PRODUCT_CUH_
