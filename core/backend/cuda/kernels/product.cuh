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

// What a lane has of one group of a tile.
template <typename Format>
struct GroupWeights {
  typename Format::Weights weights;
  float scales[2];
};

// A group from `end` on is the last before it, so that no load depends on a condition.
template <typename Format>
LUNA_DEVICE GroupWeights<Format> LoadGroup(const ProductArgs& args, int tile, int group, int end,
                                           int lane) {
  const int64_t index = int64_t{tile} * args.groups + Smaller(group, end - 1);
  GroupWeights<Format> loaded = {Format::Load(args.weights + index * Format::kGroupBytes, lane),
                                 {}};
  if constexpr (Format::kScaled) {
    const float* scale = args.scales + index * kTileRows + lane / 4;
    loaded.scales[0] = scale[0];
    loaded.scales[1] = scale[8];
  }
  return loaded;
}

// acc += one group of a tile times what `read(step, column tile)` gives.
template <typename Format, int kColumnTiles, typename Read>
LUNA_DEVICE void MultiplyGroup(const GroupWeights<Format>& group, float (&acc)[kColumnTiles][4],
                               Read read) {
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
    if constexpr (Format::kScaled) {
      float sum[4] = {};
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        Format::Multiply(sum, group.weights, step, read(step, c));
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[c][i] = fmaf(group.scales[i / 2], sum[i], acc[c][i]);
    } else {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        Format::Multiply(acc[c], group.weights, step, read(step, c));
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

// The groups of a warp, and its weights of the first of them.
template <typename Format>
struct NarrowPart {
  int begin, end;
  GroupWeights<Format> ahead[Format::kGroupsAhead];
};

// A block's work, on one tile and kColumnTiles * kTileTokens columns.
template <typename Format, int kColumnTiles, bool kNormed>
LUNA_DEVICE void MultiplyNarrow(const ProductArgs& args, const ProductColumns& columns,
                                NarrowPart<Format>& mine) {
  auto& shared = *reinterpret_cast<NarrowShared<kColumnTiles>*>(SharedMemory());
  constexpr int kColumns = kColumnTiles * kTileTokens;
  const int first_column = BlockIndexY() * kColumns;
  PrepareColumns<kColumns, kNormed>(args, columns, first_column, shared.rows, shared.statistics);

  const int tile = BlockIndexX();
  const int part = ThreadIndex() / kWarpSize, lane = ThreadIndex() % kWarpSize;
  const Inputs<kNormed> inputs = {args.x, args.x_stride, args.norm.weight, args.norm.bias};
  float acc[kColumnTiles][4] = {};
  const auto multiply = [&](int group, GroupWeights<Format>& ahead) {
    const GroupWeights<Format> weights = ahead;
    ahead = LoadGroup<Format>(args, tile, group + Format::kGroupsAhead, mine.end, lane);
    MultiplyGroup(weights, acc, [&](int step, int c) {
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
  };
  // Several without a condition between them, so that their inputs are under way together.
  int group = mine.begin;
  for (; group + Format::kGroupsAhead <= mine.end; group += Format::kGroupsAhead) {
#pragma unroll
    for (int i = 0; i < Format::kGroupsAhead; ++i) multiply(group + i, mine.ahead[i]);
  }
#pragma unroll
  for (int i = 0; i + 1 < Format::kGroupsAhead; ++i) {
    if (group + i < mine.end) multiply(group + i, mine.ahead[i]);
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
      if (p * GroupsPerPart(args.groups) >= args.groups) break;
      const Float4 of_part = shared.parts[p][c][lane];
      const float values[4] = {of_part.x, of_part.y, of_part.z, of_part.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) total[i] = p == 0 ? values[i] : total[i] + values[i];
    }
    Finish(args, tile, first_column + c * kTileTokens, columns.count, total, lane);
  }
}

// Grid: (tiles, columns / (kColumnTiles * kTileTokens) rounded up). Each warp of a block has one
// part of the inputs, so that all of the device reads weights. Where registers allow two
// blocks to a multiprocessor, the next product's weights are on their way before this one is done.
template <typename Format, int kColumnTiles>
LUNA_KERNEL void LUNA_BLOCK_OF(kProductThreads, kColumnTiles <= Format::kPairedTiles ? 2 : 1)
    NarrowProduct(const ProductArgs args) {
  const int per_part = GroupsPerPart(args.groups);
  NarrowPart<Format> mine;
  mine.begin = ThreadIndex() / kWarpSize * per_part;
  mine.end = Smaller(args.groups, mine.begin + per_part);
#pragma unroll
  for (int i = 0; i < Format::kGroupsAhead; ++i) {
    mine.ahead[i] =
        LoadGroup<Format>(args, BlockIndexX(), mine.begin + i, mine.end, ThreadIndex() % kWarpSize);
  }
  AwaitEarlierKernels();
  const ProductColumns columns = ColumnsOf(args);
  if (columns.count <= static_cast<int>(BlockIndexY()) * kColumnTiles * kTileTokens) return;
  if (args.norm.kind == Norm::kNone) {
    MultiplyNarrow<Format, kColumnTiles, false>(args, columns, mine);
  } else {
    MultiplyNarrow<Format, kColumnTiles, true>(args, columns, mine);
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
// The warps of tiles behind the last multiply that one, and keep nothing of it. `ahead` is the
// first group of `tile`.
template <typename Format, bool kNormed>
LUNA_DEVICE void MultiplyWide(const ProductArgs& args, const ProductColumns& columns, int tile,
                              GroupWeights<Format>& ahead) {
  auto& shared = *reinterpret_cast<WideShared*>(SharedMemory());
  const int first_column = BlockIndexY() * kWideColumns;
  PrepareColumns<kWideColumns, kNormed>(args, columns, first_column, shared.rows,
                                        shared.statistics);

  const int warp = ThreadIndex() / kWarpSize, lane = ThreadIndex() % kWarpSize;
  const int first_tile = warp / kWideTiles * kWarpColumnTiles;  // of columns

  // What this thread stages: a quarter of one token's inputs. The lanes of a warp have the tokens
  // of one column tile, so that what they store of a matrix instruction's operand together is in
  // different banks.
  const Inputs<kNormed> inputs = {args.x, args.x_stride, args.norm.weight, args.norm.bias};
  const int column = lane % kTileTokens, quarter = lane / kTileTokens;
  const int row = shared.rows[warp * kTileTokens + column];
  const Statistics statistics = shared.statistics[warp * kTileTokens + column];
  const auto stage = [&](int group, const Float4(&x)[2]) {
    float values[8];
    inputs.Finish(row, statistics, group * kGroupInputs + quarter * 8, x, values);
    Format::Stage(values, column, quarter, shared.staged[group % 2][warp]);
  };
  // The last group once more behind the end: no load depends on a condition.
  const auto load = [&](int group, Float4(&x)[2]) {
    inputs.Load(row, Smaller(group, args.groups - 1) * kGroupInputs + quarter * 8, x);
  };

  // While a group is multiplied, the next one's inputs and weights are under way.
  const int per_part = GroupsPerPart(args.groups);
  float total[kWarpColumnTiles][4], acc[kWarpColumnTiles][4] = {};
  Float4 x[2];
  load(0, x);
  stage(0, x);
  for (int group = 0; group < args.groups; ++group) {
    const GroupWeights<Format> weights = ahead;
    ahead = LoadGroup<Format>(args, tile, group + 1, args.groups, lane);
    load(group + 1, x);
    SyncThreads();
    MultiplyGroup(weights, acc, [&](int step, int c) {
      return Format::ReadStaged(shared.staged[group % 2][first_tile + c], step, lane);
    });
    if (group + 1 < args.groups) stage(group + 1, x);
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
  if (BlockIndexX() * kWideTiles + warp % kWideTiles >= args.tiles) return;
#pragma unroll
  for (int c = 0; c < kWarpColumnTiles; ++c) {
    const int at = first_column + (first_tile + c) * kTileTokens;
    if (at < columns.count) Finish(args, tile, at, columns.count, total[c], lane);
  }
}

// Grid: (tiles / kWideTiles, tokens / kWideColumns), rounded up.
template <typename Format>
LUNA_KERNEL void LUNA_BLOCK_OF(kProductThreads, 2) WideProduct(const ProductArgs args) {
  const int warp = ThreadIndex() / kWarpSize;
  const int tile = Smaller(BlockIndexX() * kWideTiles + warp % kWideTiles, args.tiles - 1);
  GroupWeights<Format> ahead =
      LoadGroup<Format>(args, tile, 0, args.groups, ThreadIndex() % kWarpSize);
  AwaitEarlierKernels();
  const ProductColumns columns = ColumnsOf(args);
  if (columns.count <= static_cast<int>(BlockIndexY()) * kWideColumns) return;
  if (args.norm.kind == Norm::kNone) {
    MultiplyWide<Format, false>(args, columns, tile, ahead);
  } else {
    MultiplyWide<Format, true>(args, columns, tile, ahead);
  }
}

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_PRODUCT_CUH_
