// AVX-512 with VNNI, and where it is the faster way with BF16. All headers come before the target,
// so that no inline function of theirs is compiled for it and then shared with code that runs
// anywhere.
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

// Not the intrinsics: g++ 12 copies their accumulators and halves the speed.
inline IntVec DotBytes(IntVec sums, IntVec weights, IntVec a) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(weights), "v"(a));
  return sums;
}

inline IntVec DotWords(IntVec sums, IntVec weights, IntVec a) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(weights), "v"(a));
  return sums;
}
inline uint32_t LanesEqual(Vec v, Vec w) { return _mm512_cmp_ps_mask(v, w, _CMP_EQ_OQ); }

#include "core/backend/cpu/kernel_bodies.inc"
#include "core/backend/cpu/kv_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"
#include "core/backend/cpu/product_int8_bytes.inc"
#include "core/backend/cpu/product_int8_words.inc"

// ---- bf16 with both factors rounded to it -------------------------------------------------------

// A prepared row is [pairs][2] bf16.
constexpr int kBf16Group = 32;
int64_t Bf16RowBytes(int inputs) { return RoundUpToLine(int64_t{Bf16Pairs(inputs)} * 4); }

void PrepareBf16(const float* x, int, int begin, int end, std::byte* row) {
  auto* out = reinterpret_cast<uint16_t*>(row);
  ForEachVec(end - begin, [&](int i, int lanes) {
    const __m256bh rounded = _mm512_cvtneps_pbh(LoadLanes(x + begin + i, lanes));
    memcpy(out + begin + i, &rounded, static_cast<size_t>(lanes) * sizeof(uint16_t));
    if (lanes % 2 == 1) out[begin + i + lanes] = 0;
  });
}

struct DotBf16Format {
  static constexpr int kStepBytes = kStepInputs * kPanel * sizeof(uint16_t);
  static constexpr int kStepsTogether = 1;
  static int64_t PanelBytes(int inputs) { return Bf16PanelBytes(inputs); }

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void Add(const MultiplyArgs& args, int row, int panel,
                                                int begin, int end, Ahead& ahead,
                                                Sums<kRows, kPanels>& sums) {
    const int64_t panel_bytes = PanelBytes(args.inputs);
    const std::byte* weights = args.panels + panel * panel_bytes;
    const std::byte* a = args.a + row * args.a_stride;
    for (int step = begin / 2; step < Bf16Pairs(end); step += kStepInputs / 2) {
      ahead.Step<kPanels>(kStepBytes);
      for (int i = step; i < Smaller(step + kStepInputs / 2, Bf16Pairs(end)); ++i) {
        IntVec w[kPanels];
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p) {
          w[p] = LoadInts(weights + p * panel_bytes + int64_t{i} * sizeof(IntVec));
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
    }
  }
};

constexpr Product kDotBf16Product = {.panel_bytes = Bf16PanelBytes,
                                     .pack = PackBf16,
                                     .pack_q4 = nullptr,
                                     .prepare = PrepareBf16,
                                     .row_bytes = Bf16RowBytes,
                                     .group = kBf16Group,
                                     .multiply = Multiply<DotBf16Format, kTileRows, kTilePanels>};

}  // namespace

const Kernels& Avx512VnniKernels(bool dot_bf16) {
  static constexpr RoundingProducts kDotBf16Products = {
      .bf16 = kDotBf16Product, .int8 = kInt8ByteProduct, .int4 = kInt4ByteProduct};
  static constexpr Kernels kWidening = MakeKernels(
      "avx512vnni", WeightsFormat::kInt8, WeightsFormat::kInt4,
      {.f32 = kF32Product, .fast = kByteProducts, .precise = kWordProducts}, kKvFormats);
  static constexpr Kernels kDotting = MakeKernels(
      "avx512vnni", WeightsFormat::kInt8, WeightsFormat::kInt4,
      {.f32 = kF32Product, .fast = kDotBf16Products, .precise = kWordProducts}, kKvFormats);
  return dot_bf16 ? kDotting : kWidening;
}

}  // namespace luna::backend::cpu

#pragma GCC pop_options
#endif  // __x86_64__
