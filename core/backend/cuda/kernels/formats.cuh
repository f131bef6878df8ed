// What weights are kept in, and how a warp multiplies a tile of them with eight tokens.
//
// A format has
//   kGroupBytes      of one tile's weights for one group of inputs
//   kGroupsAhead     how many groups' weights a warp loads before it needs them
//   kPairedTiles     column tiles up to which a multiprocessor has registers for two blocks
//   kScaled          whether a group has a scale for each row
//   Weights          what a lane holds of a group; Load
//   Activations      what a lane holds of 16 inputs of eight tokens; Read from memory, ReadStaged
//   from
//                    shared memory where Stage put it
//   Multiply         accumulates 16 inputs, with the layout of MmaBf16's c
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_FORMATS_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_FORMATS_CUH_

#include "core/backend/cuda/kernel_args.h"
#include "core/backend/cuda/kernels/common.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

inline constexpr int kStepInputs = 16;
inline constexpr int kSteps = kGroupInputs / kStepInputs;
// Of one group of eight tokens in shared memory.
inline constexpr int kStagedBytes = kGroupInputs * kTileTokens * static_cast<int>(sizeof(float));

struct alignas(8) Float2 {
  float x, y;
};
struct alignas(16) Float4 {
  float x, y, z, w;
};
struct alignas(16) Words4 {
  uint32_t x, y, z, w;
};

struct Statistics {
  float mean, scale;  // of a row: norm(x) = (x - mean) * scale * weight + bias
};

// The inputs of a product, normed or as they are. No load depends on a condition, so that many are
// under way at a time.
template <bool kNormed>
struct Inputs {
  const float* x;
  int64_t stride;
  const float* weight;
  const float* bias;

  // Two neighbours of row `row`; zeros where there is no such row (-1).
  LUNA_DEVICE Float2 Pair(int row, const Statistics& statistics, int k) const {
    const bool there = row >= 0;
    Float2 v = *reinterpret_cast<const Float2*>(x + (there ? row : 0) * stride + k);
    if constexpr (kNormed) {
      const Float2 w = *reinterpret_cast<const Float2*>(weight + k);
      const Float2 b = *reinterpret_cast<const Float2*>(bias + k);
      v = {Normed(v.x, statistics, w.x, b.x), Normed(v.y, statistics, w.y, b.y)};
    }
    return {there ? v.x : 0.0f, there ? v.y : 0.0f};
  }

  // Eight neighbours in two steps, between which there may be other work: as they are, then as Pair
  // gives them.
  LUNA_DEVICE void Load(int row, int k, Float4 (&x)[2]) const {
    const auto* from = reinterpret_cast<const Float4*>(this->x + (row >= 0 ? row : 0) * stride + k);
    x[0] = from[0];
    x[1] = from[1];
  }
  LUNA_DEVICE void Finish(int row, const Statistics& statistics, int k, const Float4 (&x)[2],
                          float (&values)[8]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      Float4 v = x[i];
      if constexpr (kNormed) {
        const Float4 w = reinterpret_cast<const Float4*>(weight + k)[i];
        const Float4 b = reinterpret_cast<const Float4*>(bias + k)[i];
        v = {Normed(v.x, statistics, w.x, b.x), Normed(v.y, statistics, w.y, b.y),
             Normed(v.z, statistics, w.z, b.z), Normed(v.w, statistics, w.w, b.w)};
      }
      const float four[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) values[4 * i + j] = row >= 0 ? four[j] : 0.0f;
    }
  }

 private:
  LUNA_DEVICE static float Normed(float x, const Statistics& statistics, float w, float b) {
    return (x - statistics.mean) * statistics.scale * w + b;
  }
};

// --- bf16 ----------------------------------------------------------------------------------------

// A group is two fragments of MmaBf16's a, a lane's four registers side by side.
struct Bf16Format {
  static constexpr int kGroupBytes = kTileRows * kGroupInputs * 2;
  static constexpr int kGroupsAhead = 2;
  static constexpr int kPairedTiles = 4;
  static constexpr bool kScaled = false;
  static constexpr int kLaneColumns = 1;
  LUNA_DEVICE static int Column(int lane, int) { return lane / 4; }

  struct Weights {
    uint32_t a[kSteps][4];
  };
  LUNA_DEVICE static Weights Load(const std::byte* group, int lane) {
    Weights w;
    for (int s = 0; s < kSteps; ++s) {
      const Words4 v = reinterpret_cast<const Words4*>(group)[s * kWarpSize + lane];
      w.a[s][0] = v.x;
      w.a[s][1] = v.y;
      w.a[s][2] = v.z;
      w.a[s][3] = v.w;
    }
    return w;
  }

  struct Activations {
    uint32_t high[2], low[2];
  };
  template <typename Inputs>
  LUNA_DEVICE static Activations Read(const Inputs& inputs, const int (&rows)[1],
                                      const Statistics (&statistics)[1], int k, int lane) {
    Activations b;
    for (int r = 0; r < 2; ++r) {
      const Float2 v = inputs.Pair(rows[0], statistics[0], k + 8 * r + 2 * (lane % 4));
      const SplitPair split = Split(v.x, v.y);
      b.high[r] = split.high;
      b.low[r] = split.low;
    }
    return b;
  }

  // Staged: [kSteps][high, low][register][lane]. Inputs 8 quarter to 8 quarter + 7 of token
  // `column`.
  LUNA_DEVICE static void Stage(const float (&values)[8], int column, int quarter,
                                std::byte* staged) {
    auto* words = reinterpret_cast<Words4*>(staged);  // of a token's four lanes
    const int step = quarter / 2, r = quarter % 2;
    SplitPair split[4];
    for (int t = 0; t < 4; ++t) split[t] = Split(values[2 * t], values[2 * t + 1]);
    Words4* at = words + (step * 4 + r) * kTileTokens + column;
    at[0] = {split[0].high, split[1].high, split[2].high, split[3].high};
    at[2 * kTileTokens] = {split[0].low, split[1].low, split[2].low, split[3].low};
  }
  LUNA_DEVICE static Activations ReadStaged(const std::byte* staged, int step, int lane) {
    const auto* words = reinterpret_cast<const uint32_t*>(staged) + step * 4 * kWarpSize + lane;
    return {{words[0], words[kWarpSize]}, {words[2 * kWarpSize], words[3 * kWarpSize]}};
  }

  LUNA_DEVICE static void Multiply(float (&c)[4], const Weights& w, int step,
                                   const Activations& b) {
    MmaBf16(c, w.a[step], b.high);
    MmaBf16(c, w.a[step], b.low);
  }
};

// --- int8 ----------------------------------------------------------------------------------------

// Levels in [-127, 127], kept as 128 + level in the order of Bf16Format's values, a lane's 16 bytes
// side by side. Every level is a bf16, so the product is Bf16Format's, and a group's sum is
// multiplied by its row's scale.
struct Int8Format : Bf16Format {
  static constexpr int kPairedTiles = 2;
  static constexpr int kGroupBytes = kTileRows * kGroupInputs;
  static constexpr bool kScaled = true;

  struct Weights {
    uint32_t levels[4];
  };
  LUNA_DEVICE static Weights Load(const std::byte* group, int lane) {
    const Words4 v = reinterpret_cast<const Words4*>(group)[lane];
    return {{v.x, v.y, v.z, v.w}};
  }
  LUNA_DEVICE static float Level(uint32_t word, int byte) {
    constexpr float kOffset = 8388608.0f + 128.0f;  // 2^23: its last bit is worth 1
    return BitsAs<float>(0x4b000000u | (word >> (8 * byte) & 0xffu)) - kOffset;
  }
  LUNA_DEVICE static void Multiply(float (&c)[4], const Weights& w, int step,
                                   const Activations& b) {
    uint32_t a[4];
    for (int r = 0; r < 4; ++r) {
      const uint32_t word = w.levels[step * 2 + r / 2];
      a[r] = PackBf16(Level(word, r % 2 * 2), Level(word, r % 2 * 2 + 1));
    }
    MmaBf16(c, a, b.high);
    MmaBf16(c, a, b.low);
  }
};

// --- f32 -----------------------------------------------------------------------------------------

// A group is [kTileRows][kGroupInputs]; one fused multiply-add after the other.
struct F32Format {
  static constexpr int kGroupBytes = kTileRows * kGroupInputs * 4;
  static constexpr int kGroupsAhead = 1;
  static constexpr int kPairedTiles = 0;
  static constexpr bool kScaled = false;
  static constexpr int kLaneColumns = 2;
  LUNA_DEVICE static int Column(int lane, int i) { return lane % 4 * 2 + i; }

  struct Weights {
    const float* row;  // of the lane's first; its second is 8 rows further
  };
  LUNA_DEVICE static Weights Load(const std::byte* group, int lane) {
    return {reinterpret_cast<const float*>(group) + lane / 4 * kGroupInputs};
  }

  struct Activations {
    Float2 b[kStepInputs];
  };
  template <typename Inputs>
  LUNA_DEVICE static Activations Read(const Inputs& inputs, const int (&rows)[2],
                                      const Statistics (&statistics)[2], int k, int) {
    Activations b;
    for (int i = 0; i < kStepInputs; i += 2) {
      const Float2 first = inputs.Pair(rows[0], statistics[0], k + i);
      const Float2 second = inputs.Pair(rows[1], statistics[1], k + i);
      b.b[i] = {first.x, second.x};
      b.b[i + 1] = {first.y, second.y};
    }
    return b;
  }

  // Staged: [kGroupInputs][kTileTokens].
  LUNA_DEVICE static void Stage(const float (&values)[8], int column, int quarter,
                                std::byte* staged) {
    auto* out = reinterpret_cast<float*>(staged) + quarter * 8 * kTileTokens + column;
    for (int i = 0; i < 8; ++i) out[i * kTileTokens] = values[i];
  }
  LUNA_DEVICE static Activations ReadStaged(const std::byte* staged, int step, int lane) {
    const auto* in =
        reinterpret_cast<const float*>(staged) + step * kStepInputs * kTileTokens + lane % 4 * 2;
    Activations b;
    for (int i = 0; i < kStepInputs; ++i) {
      b.b[i] = *reinterpret_cast<const Float2*>(in + i * kTileTokens);
    }
    return b;
  }

  LUNA_DEVICE static void Multiply(float (&c)[4], const Weights& w, int step,
                                   const Activations& b) {
    const float* first = w.row + step * kStepInputs;
    const float* second = first + 8 * kGroupInputs;
#pragma unroll
    for (int i = 0; i < kStepInputs; i += 4) {
      const Float4 p = *reinterpret_cast<const Float4*>(first + i);
      const Float4 q = *reinterpret_cast<const Float4*>(second + i);
      const float rows[4][2] = {{p.x, q.x}, {p.y, q.y}, {p.z, q.z}, {p.w, q.w}};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        c[0] = fmaf(rows[j][0], b.b[i + j].x, c[0]);
        c[1] = fmaf(rows[j][0], b.b[i + j].y, c[1]);
        c[2] = fmaf(rows[j][1], b.b[i + j].x, c[2]);
        c[3] = fmaf(rows[j][1], b.b[i + j].y, c[3]);
      }
    }
  }
};

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_FORMATS_CUH_
