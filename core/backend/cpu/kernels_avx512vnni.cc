// AVX-512 with VNNI and BF16. All headers come before the target, so that no inline function of
// theirs is compiled for it and then shared with code that runs anywhere.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "core/backend/checks.h"
#include "core/backend/cpu/bf16_format.h"
#include "core/backend/cpu/int8_format.h"
#include "core/backend/cpu/kernel_paths.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma")

namespace luna::backend::cpu {
namespace {

#include "core/backend/cpu/avx512_vectors.inc"

constexpr int kInt8Rows = 6;
constexpr int kInt8Panels = 2;

constexpr bool kInt8Start = true;
inline IntVec Int8Weights(const std::byte* p) {
  IntVec weights;
  memcpy(&weights, p, sizeof(weights));
  return weights;
}
// Not the intrinsic: g++ 12 copies its accumulator and halves the speed.
inline IntVec DotInt8(IntVec sums, IntVec weights, IntVec a) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(weights), "v"(a));
  return sums;
}

#include "core/backend/cpu/kernel_bodies.inc"
#include "core/backend/cpu/kv_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"

// ---- bf16 with both factors rounded to it -------------------------------------------------------

// A prepared row is [pairs][2] bf16.
constexpr int kBf16Group = 32;
int64_t Bf16RowBytes(int inputs) { return (int64_t{Bf16Pairs(inputs)} * 4 + 63) / 64 * 64; }

void PrepareBf16(const float* x, int, int begin, int end, std::byte* row) {
  auto* out = reinterpret_cast<uint16_t*>(row);
  ForEachVec(end - begin, [&](int i, int lanes) {
    const __m256bh rounded = _mm512_cvtneps_pbh(LoadLanes(x + begin + i, lanes));
    memcpy(out + begin + i, &rounded, static_cast<size_t>(lanes) * sizeof(uint16_t));
    if (lanes % 2 == 1) out[begin + i + lanes] = 0;
  });
}

template <int kRows, int kPanels>
struct DotBf16Tile {
  static inline void Run(const MultiplyArgs& args, int row, int panel) {
    Vec sums[kRows][kPanels][kPanelVecs] = {};
    const int64_t panel_bytes = Bf16PanelBytes(args.inputs);
    const std::byte* weights = args.panels + panel * panel_bytes;
    const std::byte* a = args.a + row * args.a_stride;
    const int pairs = Bf16Pairs(args.inputs);
    for (int i = 0; i < pairs; ++i) {
      IntVec w[kPanels];
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        memcpy(&w[p], weights + p * panel_bytes + int64_t{i} * sizeof(IntVec), sizeof(IntVec));
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        int32_t pair;
        memcpy(&pair, a + r * args.a_stride + 4 * i, sizeof(pair));
        const IntVec x = BroadcastInt(pair);
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) {
          asm("vdpbf16ps %2, %1, %0" : "+v"(sums[r][p][0]) : "v"(w[p]), "v"(x));
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) Finish<kPanels>(args, row + r, panel, sums[r]);
  }
};

constexpr Product kDotBf16Product = {.panel_bytes = Bf16PanelBytes,
                                     .pack = PackBf16,
                                     .prepare = PrepareBf16,
                                     .row_bytes = Bf16RowBytes,
                                     .group = kBf16Group,
                                     .multiply = Cover<DotBf16Tile, kTileRows, kTilePanels>};

}  // namespace

const Kernels& Avx512VnniKernels() {
  static constexpr Kernels kKernels = MakeKernels("avx512vnni", WeightsFormat::kInt8,
                                                  {.f32 = kF32Product,
                                                   .bf16 = kDotBf16Product,
                                                   .int8 = kInt8Product<false>,
                                                   .int8_of_16_bits = kInt8Product<true>},
                                                  kKvFormats);
  return kKernels;
}

}  // namespace luna::backend::cpu

#pragma GCC pop_options
#endif  // __x86_64__
