// Attention over paged keys and values, split along the positions. One kernel for single tokens and
// for chunks of a prompt: a query's bits do not depend on how many others there are, because
// queries are columns that do not mix, and what a query does not see leaves its sums as they are.
//
// Softmax as it goes: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_ATTENTION_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_ATTENTION_CUH_

#include <cmath>

#include "core/backend/cuda/kernels/epilogue.cuh"
#include "core/backend/cuda/kernels/kv_types.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

inline constexpr int kAttentionThreads = kAttentionWarps * kWarpSize;

// Of a query, over some of the positions: the largest score, and the sum of e^(score - largest).
struct SoftmaxState {
  float largest, sum;
};

// What two results over neighbouring positions are multiplied with when they are put together.
struct MergeFactors {
  float before, after;
};

// `state` becomes that of both. Nothing seen is {-inf, 0}; merging it in changes no bit.
LUNA_DEVICE MergeFactors Merge(SoftmaxState& state, const SoftmaxState& next) {
  const float largest = fmaxf(state.largest, next.largest);
  const float base = largest == -INFINITY ? 0.0f : largest;
  const MergeFactors factors = {expf(state.largest - base), expf(next.largest - base)};
  state = {largest, state.sum * factors.before + next.sum * factors.after};
  return factors;
}

template <typename Kv, int kDimTiles, int kColumnTiles>
struct AttentionShared {
  static constexpr int kColumns = kColumnTiles * kTileTokens;
  static constexpr int kDims = kDimTiles * kDimTile;
  alignas(16) std::byte queries[kColumnTiles][kDimTiles][Kv::kQueryBytes];
  float parts[kAttentionWarps][kColumns][kDims];
  SoftmaxState states[kAttentionWarps][kColumns];
  MergeFactors factors[kAttentionWarps][kColumns];
  SoftmaxState split[kColumns];
  uint32_t ticket;
};

// What a block works on.
struct AttentionTile {
  AttentionItem item;
  int kv_head;
  int columns;      // tokens * heads
  int first, last;  // positions that any of its queries sees
};

template <typename Kv>
LUNA_DEVICE KvRows RowsOf(const AttentionArgs& args, const AttentionTile& tile, int slab,
                          int lane) {
  const auto* table = At<int32_t>(args.header, args.header->tables) + tile.item.table;
  KvRows rows;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int position = slab + lane / 4 + 8 * r;
    rows.there[r] = position >= tile.first && position <= tile.last;
    const int read = rows.there[r] ? position : tile.last;
    const int entry = read / args.kv.block_tokens;
    const int offset = read - entry * args.kv.block_tokens;
    rows.row[r] = KvHead(args.kv, table[entry], tile.kv_head, /*values=*/false) +
                  int64_t{offset} * args.kv.padded_dim * Kv::kElementBytes;
  }
  return rows;
}

// A warp's own results: of a lane the columns 2 (lane % 4) and the next of each column tile.
template <int kDimTiles, int kColumnTiles>
struct WarpResult {
  SoftmaxState states[kColumnTiles][2];
  float values[kDimTiles][kColumnTiles][4];
};

// Turns scores into probabilities and lets `result` go on to them.
template <int kDimTiles, int kColumnTiles>
LUNA_DEVICE void Soften(const AttentionArgs& args, const AttentionTile& tile, int slab, int c,
                        int lane, float (&scores)[4], WarpResult<kDimTiles, kColumnTiles>& result) {
  float factors[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int column = c * kTileTokens + lane % 4 * 2 + j;
    const int last = column < tile.columns ? tile.item.position + column / args.heads : -1;
    const int first = args.window == 0 ? 0 : last - args.window + 1;
    float score[2];
    bool seen[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int position = slab + lane / 4 + 8 * r;
      seen[r] = position <= last && position >= first;
      score[r] = seen[r] ? scores[2 * r + j] * args.scale : -INFINITY;
    }
    SoftmaxState& state = result.states[c][j];
    const float largest = fmaxf(state.largest, LargestOverRows(fmaxf(score[0], score[1])));
    const float base = largest == -INFINITY ? 0.0f : largest;
#pragma unroll
    for (int r = 0; r < 2; ++r) scores[2 * r + j] = seen[r] ? expf(score[r] - base) : 0.0f;
    factors[j] = expf(state.largest - base);
    state = {largest, state.sum * factors[j] + SumOverRows(scores[j] + scores[2 + j])};
  }
#pragma unroll
  for (int d = 0; d < kDimTiles; ++d) {
#pragma unroll
    for (int i = 0; i < 4; ++i) result.values[d][c][i] *= factors[i % 2];
  }
}

template <typename Kv, int kDimTiles, int kColumnTiles>
LUNA_DEVICE void AttendSlab(const AttentionArgs& args, const AttentionTile& tile, int slab,
                            AttentionShared<Kv, kDimTiles, kColumnTiles>& shared, int lane,
                            WarpResult<kDimTiles, kColumnTiles>& result) {
  const int dim_tiles = args.kv.padded_dim / kDimTile;
  const KvRows rows = RowsOf<Kv>(args, tile, slab, lane);
  // Tiles that are fetched before the first of them is used: as many as registers allow.
  constexpr int kFetched = !Kv::kFetchesAhead ? 1 : kDimTiles * kColumnTiles == 8 ? 8 : 4;
  const auto fetch = [&](int64_t offset, int first, typename Kv::Fetched(&fetched)[kFetched]) {
#pragma unroll
    for (int d = 0; d < kFetched; ++d) {
      fetched[d] = Kv::Fetch(rows, offset, first + d, first + d < dim_tiles, lane);
    }
  };
  // Values are under way while scores are computed, where registers allow that too.
  constexpr bool kAhead = Kv::kFetchesAhead && kDimTiles * kColumnTiles <= 4;
  typename Kv::Fetched values[kFetched];

  float scores[kColumnTiles][4] = {};
  [[maybe_unused]] constexpr int kUnrolled = !Kv::kFetchesAhead || kDimTiles == 16 ? 1 : 4;
#pragma unroll kUnrolled
  for (int first = 0; first < kDimTiles; first += kFetched) {
    typename Kv::Fetched keys[kFetched];
    fetch(0, first, keys);
    if constexpr (kAhead) fetch(args.kv.values_offset, first, values);
#pragma unroll
    for (int d = 0; d < kFetched; ++d) {
      const typename Kv::KeyTile key_tile = Kv::Keys(keys[d], lane);
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c) {
        Kv::Score(scores[c], key_tile, shared.queries[c][first + d], lane);
      }
    }
  }
  typename Kv::Weights weights[kColumnTiles];
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
    Soften(args, tile, slab, c, lane, scores[c], result);
    weights[c] = Kv::MakeWeights(scores[c], lane);
  }
#pragma unroll
  for (int first = 0; first < kDimTiles; first += kFetched) {
    if constexpr (!kAhead) fetch(args.kv.values_offset, first, values);
#pragma unroll
    for (int d = 0; d < kFetched; ++d) {
      const typename Kv::ValueTile value_tile = Kv::Values(values[d], lane);
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c) {
        Kv::Value(result.values[first + d][c], value_tile, weights[c], lane);
      }
    }
  }
}

// A warp's share of a split, to shared memory.
template <typename Kv, int kDimTiles, int kColumnTiles>
LUNA_DEVICE void AttendShare(const AttentionArgs& args, const AttentionTile& tile, int begin,
                             AttentionShared<Kv, kDimTiles, kColumnTiles>& shared, int warp,
                             int lane) {
  WarpResult<kDimTiles, kColumnTiles> result;
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
    result.states[c][0] = result.states[c][1] = {-INFINITY, 0.0f};
#pragma unroll
    for (int d = 0; d < kDimTiles; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) result.values[d][c][i] = 0.0f;
    }
  }
  for (int slab = begin; slab < begin + kWarpTokens; slab += kSlabTokens) {
    if (slab > tile.last || slab + kSlabTokens <= tile.first) continue;
    AttendSlab(args, tile, slab, shared, lane, result);
  }
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
    const int column = c * kTileTokens + lane % 4 * 2;
    if (lane < 4) {
      shared.states[warp][column] = result.states[c][0];
      shared.states[warp][column + 1] = result.states[c][1];
    }
#pragma unroll
    for (int d = 0; d < kDimTiles; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        shared.parts[warp][column + i % 2][d * kDimTile + Kv::Dimension(lane, i)] =
            result.values[d][c][i];
      }
    }
  }
}

// One block's work on one item. Thread i of the block has elements i, i + kAttentionThreads, ... of
// the outputs [columns][kDims].
template <typename Kv, int kDimTiles, int kColumnTiles>
class Attender {
 public:
  using Shared = AttentionShared<Kv, kDimTiles, kColumnTiles>;
  static constexpr int kElements = Shared::kColumns * Shared::kDims / kAttentionThreads;

  LUNA_DEVICE Attender(const AttentionArgs& args, const AttentionTile& tile, Shared& shared)
      : args_(args), tile_(tile), shared_(shared) {}

  LUNA_DEVICE void Run() {
    StoreQueries();
    float run[kElements];
    for (int s = 0; s < tile_.item.num_splits; ++s) {
      if (s > 0) SyncThreads();  // all have read the last split's results
      const int split = tile_.item.first_split + s;
      float merged[kElements];
      AttendSplit(split * kSplitTokens, merged);
      if (tile_.item.partial >= 0) {
        LeavePartial(split, merged);
        continue;
      }
      ForElements([&](int i, int column, int) {
        SoftmaxState& state = states_[i];
        const SoftmaxState next = shared_.split[column];
        if (s == 0) {
          state = next;
          run[i] = merged[i];
          return;
        }
        const MergeFactors factors = Merge(state, next);
        run[i] = run[i] * factors.before + merged[i] * factors.after;
      });
    }
    if (tile_.item.partial < 0) {
      ForElements([&](int i, int column, int dim) { Write(column, dim, run[i] / states_[i].sum); });
    } else if (IsLast()) {
      PutTogether();
    }
    SyncThreads();
  }

 private:
  // Calls body(index, column, dimension) for this thread's elements.
  template <typename Body>
  LUNA_DEVICE void ForElements(Body body) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int element = ThreadIndex() + i * kAttentionThreads;
      const int column = element / Shared::kDims, dim = element % Shared::kDims;
      if (column < tile_.columns && dim < args_.head_dim) body(i, column, dim);
    }
  }

  LUNA_DEVICE void StoreQueries() {
    const int warp = ThreadIndex() / kWarpSize, lane = ThreadIndex() % kWarpSize;
    for (int i = warp; i < kColumnTiles * kDimTiles; i += kAttentionWarps) {
      const int c = i / kDimTiles, d = i % kDimTiles;
      Kv::Store(shared_.queries[c][d], lane, [&](int column, int dim) {
        column += c * kTileTokens;
        dim += d * kDimTile;
        if (column >= tile_.columns || dim >= args_.head_dim) return 0.0f;
        return args_.q[int64_t{tile_.item.row + column / args_.heads} * args_.q_stride +
                       (tile_.kv_head * args_.heads + column % args_.heads) * args_.head_dim + dim];
      });
    }
    SyncThreads();
  }

  // The result over one split, in shared_.split and `merged`.
  LUNA_DEVICE void AttendSplit(int begin, float (&merged)[kElements]) {
    const int warp = ThreadIndex() / kWarpSize, lane = ThreadIndex() % kWarpSize;
    // Warps that have anything to see.
    const int first_warp = Larger(0, tile_.first - begin) / kWarpTokens;
    const int last_warp = Smaller(kSplitTokens - 1, tile_.last - begin) / kWarpTokens;
    if (warp >= first_warp && warp <= last_warp) {
      AttendShare<Kv, kDimTiles, kColumnTiles>(args_, tile_, begin + warp * kWarpTokens, shared_,
                                               warp, lane);
    }
    SyncThreads();
    if (ThreadIndex() < tile_.columns) {
      const int column = ThreadIndex();
      SoftmaxState state = shared_.states[first_warp][column];
      for (int w = first_warp + 1; w <= last_warp; ++w) {
        shared_.factors[w][column] = Merge(state, shared_.states[w][column]);
      }
      shared_.split[column] = state;
    }
    SyncThreads();
    ForElements([&](int i, int column, int dim) {
      float value = shared_.parts[first_warp][column][dim];
      for (int w = first_warp + 1; w <= last_warp; ++w) {
        const MergeFactors factors = shared_.factors[w][column];
        value = value * factors.before + shared_.parts[w][column][dim] * factors.after;
      }
      merged[i] = value;
    });
  }

  LUNA_DEVICE float* Partial(int split, int column) {
    const int64_t index =
        int64_t{tile_.item.partial + split - tile_.item.first_of_all} * args_.num_kv_heads +
        tile_.kv_head;
    return args_.partials + (index * Shared::kColumns + column) * (args_.kv.padded_dim + 2);
  }

  LUNA_DEVICE void LeavePartial(int split, const float (&merged)[kElements]) {
    ForElements([&](int i, int column, int dim) {
      float* partial = Partial(split, column);
      if (dim == 0) {
        partial[0] = shared_.split[column].largest;
        partial[1] = shared_.split[column].sum;
      }
      partial[2 + dim] = merged[i];
    });
  }

  // Whether all other blocks of these queries have left their partial results. A barrier.
  LUNA_DEVICE bool IsLast() {
    GlobalFence();
    SyncThreads();
    if (ThreadIndex() == 0) {
      uint32_t* tickets =
          args_.tickets + int64_t{tile_.item.ticket} * args_.num_kv_heads + tile_.kv_head;
      shared_.ticket = AtomicAdd(tickets, 1u);
      if (shared_.ticket + 1 == static_cast<uint32_t>(tile_.item.blocks)) *tickets = 0;
      GlobalFence();
    }
    SyncThreads();
    return shared_.ticket + 1 == static_cast<uint32_t>(tile_.item.blocks);
  }

  LUNA_DEVICE void PutTogether() {
    ForElements([&](int, int column, int dim) {
      SoftmaxState state = {};
      float value = 0.0f;
      for (int s = 0; s < tile_.item.num_of_all; ++s) {
        const float* partial = Partial(tile_.item.first_of_all + s, column);
        const SoftmaxState next = {LoadFresh(partial), LoadFresh(partial + 1)};
        const float of_split = LoadFresh(partial + 2 + dim);
        if (s == 0) {
          state = next;
          value = of_split;
          continue;
        }
        const MergeFactors factors = Merge(state, next);
        value = value * factors.before + of_split * factors.after;
      }
      Write(column, dim, value / state.sum);
    });
  }

  LUNA_DEVICE void Write(int column, int dim, float value) {
    const int row = tile_.item.row + column / args_.heads;
    const int head = tile_.kv_head * args_.heads + column % args_.heads;
    args_.out[int64_t{row} * args_.out_stride + head * args_.head_dim + dim] = value;
  }

  const AttentionArgs& args_;
  const AttentionTile& tile_;
  Shared& shared_;
  SoftmaxState states_[kElements];
};

// Grid: (any, num_kv_heads); blocks share out the items. Up to kColumnTiles * kTileTokens queries
// an item, heads of up to kDimTiles * kDimTile dimensions.
template <typename Kv, int kDimTiles, int kColumnTiles>
LUNA_KERNEL void LUNA_BLOCK_OF(kAttentionThreads, 1) Attention(const AttentionArgs args) {
  auto& shared = *reinterpret_cast<AttentionShared<Kv, kDimTiles, kColumnTiles>*>(SharedMemory());
  AwaitEarlierKernels();
  const GroupStep group = At<GroupStep>(args.header, args.header->groups)[args.kv.group];
  const auto* items = At<AttentionItem>(args.header, group.items);
  for (int i = BlockIndexX(); i < group.num_items; i += GridX()) {
    AttentionTile tile;
    tile.item = items[i];
    tile.kv_head = BlockIndexY();
    tile.columns = tile.item.tokens * args.heads;
    tile.first = args.window == 0 ? 0 : Larger(0, tile.item.position - args.window + 1);
    tile.last = tile.item.position + tile.item.tokens - 1;
    Attender<Kv, kDimTiles, kColumnTiles>(args, tile, shared).Run();
  }
}

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_ATTENTION_CUH_
