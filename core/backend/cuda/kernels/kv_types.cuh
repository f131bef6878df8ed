// What keys and values are kept in, and how a warp attends to a slab of kSlabTokens of them with
// eight queries at a time.
//
// A type has
//   kWideColumnTiles  how many eights of queries fit into the registers, with heads of 64
//   kFetchesAhead  whether there are registers for several tiles of dimensions that are under way
//   Queries  what lies in shared memory of eight queries and kDimTile dimensions; Store
//   Score    accumulates one tile of dimensions of the scores: rows are keys, columns queries, in
//   the
//            layout of MmaBf16's c
//   Weights  what a lane holds of a slab's probabilities, made of the scores' layout
//   Value    accumulates one tile of dimensions of the outputs: rows are dimensions (Dimension says
//            which), columns queries
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_KV_TYPES_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_KV_TYPES_CUH_

#include "core/backend/cuda/kernels/formats.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

// The rows of keys that a lane reads: of the tokens lane / 4 and lane / 4 + 8 of a slab; their
// values are values_offset further on. A token that nobody may see counts as zeros: its row is
// somebody else's, so that no load depends on a condition.
struct KvRows {
  const std::byte* row[2];
  bool there[2];
};

// Of one tile, in the order of a fragment: a lane reads four neighbours of each of its rows, the
// whole tile together 32 bytes of each row. The order within a sum over dimensions is free, so the
// pairs that MmaBf16 takes 8 apart are neighbours here.
struct Bf16Kv {
  static constexpr int kElementBytes = 2;
  static constexpr int kWideColumnTiles = 4;
  static constexpr bool kFetchesAhead = true;

  struct alignas(16) Queries {
    uint32_t high[2], low[2];  // of each lane
  };
  static constexpr int kQueryBytes = kWarpSize * static_cast<int>(sizeof(Queries));
  // `value(column, dimension)` gives the queries; called by one thread for each lane.
  template <typename Value>
  LUNA_DEVICE static void Store(std::byte* queries, int lane, Value value) {
    Queries q;
    for (int r = 0; r < 2; ++r) {
      const int dim = lane % 4 * 4 + 2 * r;
      const SplitPair split = Split(value(lane / 4, dim), value(lane / 4, dim + 1));
      q.high[r] = split.high;
      q.low[r] = split.low;
    }
    reinterpret_cast<Queries*>(queries)[lane] = q;
  }

  struct alignas(8) Words2 {
    uint32_t x, y;
  };
  // A lane's part of a tile of dimensions of its two rows; zeros where `there` is false.
  struct Fetched {
    Words2 row[2];
  };
  LUNA_DEVICE static Fetched Fetch(const KvRows& rows, int64_t offset, int tile, bool there,
                                   int lane) {
    Fetched fetched;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const auto* words = reinterpret_cast<const Words2*>(rows.row[r] + offset);
      const Words2 read = words[(there ? tile : 0) * 4 + lane % 4];
      const bool seen = there && rows.there[r];
      fetched.row[r] = {seen ? read.x : 0u, seen ? read.y : 0u};
    }
    return fetched;
  }

  struct KeyTile {
    uint32_t a[4];
  };
  LUNA_DEVICE static KeyTile Keys(const Fetched& f, int) {
    return {{f.row[0].x, f.row[1].x, f.row[0].y, f.row[1].y}};
  }
  LUNA_DEVICE static void Score(float (&c)[4], const KeyTile& keys, const std::byte* queries,
                                int lane) {
    const Queries q = reinterpret_cast<const Queries*>(queries)[lane];
    MmaBf16(c, keys.a, q.high);
    MmaBf16(c, keys.a, q.low);
  }

  struct Weights {
    uint32_t high[2], low[2];
  };
  LUNA_DEVICE static Weights MakeWeights(const float (&p)[4], int) {
    Weights w;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const SplitPair split = Split(p[2 * r], p[2 * r + 1]);
      w.high[r] = TransposeMatrix(split.high);
      w.low[r] = TransposeMatrix(split.low);
    }
    return w;
  }

  struct ValueTile {
    uint32_t a[4];
  };
  LUNA_DEVICE static ValueTile Values(const Fetched& f, int) {
    return {{TransposeMatrix(f.row[0].x), TransposeMatrix(f.row[0].y), TransposeMatrix(f.row[1].x),
             TransposeMatrix(f.row[1].y)}};
  }
  LUNA_DEVICE static void Value(float (&c)[4], const ValueTile& values, const Weights& w, int) {
    MmaBf16(c, values.a, w.high);
    MmaBf16(c, values.a, w.low);
  }
  // Of c[i], within a tile.
  LUNA_DEVICE static int Dimension(int lane, int i) {
    const int row = lane / 4;
    return row / 2 * 4 + row % 2 + i / 2 * 2;
  }
};

// One fused multiply-add after the other. The barriers keep the compiler from loading many tiles at
// a time, for which there are no registers.
struct F32Kv {
  static constexpr int kElementBytes = 4;
  static constexpr int kWideColumnTiles = 2;
  static constexpr bool kFetchesAhead = false;

  // [kTileTokens][kDimTile]
  static constexpr int kQueryBytes = kTileTokens * kDimTile * static_cast<int>(sizeof(float));
  template <typename Value>
  LUNA_DEVICE static void Store(std::byte* queries, int lane, Value value) {
    auto* q = reinterpret_cast<float*>(queries);
    for (int i = lane; i < kTileTokens * kDimTile; i += kWarpSize) {
      q[i] = value(i / kDimTile, i % kDimTile);
    }
  }

  // Where a lane's part of a tile of dimensions of its two rows is; null: zeros.
  struct Fetched {
    const float* row[2];
  };
  LUNA_DEVICE static Fetched Fetch(const KvRows& rows, int64_t offset, int tile, bool there, int) {
    Fetched fetched;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      fetched.row[r] = there && rows.there[r]
                           ? reinterpret_cast<const float*>(rows.row[r] + offset) + tile * kDimTile
                           : nullptr;
    }
    return fetched;
  }

  struct KeyTile {
    const float* rows[2];
  };
  LUNA_DEVICE static KeyTile Keys(const Fetched& f, int) {
    SyncWarp();
    return {{f.row[0], f.row[1]}};
  }
  LUNA_DEVICE static void Score(float (&c)[4], const KeyTile& keys, const std::byte* queries,
                                int lane) {
    const auto* first = reinterpret_cast<const float*>(queries) + lane % 4 * 2 * kDimTile;
    const float* second = first + kDimTile;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (keys.rows[r] == nullptr) continue;
#pragma unroll
      for (int d = 0; d < kDimTile; d += 4) {
        const Float4 k = *reinterpret_cast<const Float4*>(keys.rows[r] + d);
        const Float4 a = *reinterpret_cast<const Float4*>(first + d);
        const Float4 b = *reinterpret_cast<const Float4*>(second + d);
        c[2 * r] = Add4(k, a, c[2 * r]);
        c[2 * r + 1] = Add4(k, b, c[2 * r + 1]);
      }
    }
  }
  LUNA_DEVICE static float Add4(const Float4& a, const Float4& b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
  }

  // As the scores lie; a token's are handed round where its values are read.
  struct Weights {
    float p[4];
  };
  LUNA_DEVICE static Weights MakeWeights(const float (&p)[4], int) {
    return {{p[0], p[1], p[2], p[3]}};
  }

  using ValueTile = Fetched;
  LUNA_DEVICE static ValueTile Values(const Fetched& f, int) { return f; }
  LUNA_DEVICE static void Value(float (&c)[4], const ValueTile& values, const Weights& w,
                                int lane) {
#pragma unroll
    for (int i = 0; i < kSlabTokens; ++i) {
      if (i % 4 == 0) SyncWarp();
      const int from = i % 8 * 4;
      const auto mine = reinterpret_cast<uint64_t>(values.row[i / 8]);
      const auto* row = reinterpret_cast<const float*>(ShuffleFrom(mine, from));
      const float p = ShuffleFrom(w.p[i / 8 * 2], from + lane % 4);
      const float q = ShuffleFrom(w.p[i / 8 * 2 + 1], from + lane % 4);
      const float first = row == nullptr ? 0.0f : row[lane / 4];
      const float second = row == nullptr ? 0.0f : row[lane / 4 + 8];
      c[0] = fmaf(first, p, c[0]);
      c[1] = fmaf(first, q, c[1]);
      c[2] = fmaf(second, p, c[2]);
      c[3] = fmaf(second, q, c[3]);
    }
  }
  LUNA_DEVICE static int Dimension(int lane, int i) { return lane / 4 + i / 2 * 8; }
};

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_KV_TYPES_CUH_
