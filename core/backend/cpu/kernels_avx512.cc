// AVX-512. All headers come before the target, so that no inline function of theirs is compiled for
// it and then shared with code that runs anywhere.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "core/backend/cpu/bf16_format.h"
#include "core/backend/cpu/int8_format.h"
#include "core/backend/cpu/kernel_paths.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")

namespace luna::backend::cpu {
namespace {

constexpr int kWidth = 16;
using Vec = float __attribute__((vector_size(kWidth * sizeof(float))));
using IntVec = int32_t __attribute__((vector_size(kWidth * sizeof(float))));
constexpr int kTileRows = 6;
constexpr int kTilePanels = 4;
constexpr int kInt8Rows = 4;
constexpr int kInt8Panels = 2;

inline Vec MulAdd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline float Sum(Vec v) {
  // Not _mm512_castps512_ps256 and its kin: g++ 12 warns of uninitialized values inside them.
  const __m256 quarter = _mm256_add_ps(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                                       __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(quarter), _mm256_extractf128_ps(quarter, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

inline float Largest(Vec v) {
  const __m256 quarter = _mm256_max_ps(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                                       __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(quarter), _mm256_extractf128_ps(quarter, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

// Bytes of weights get their sign back; |a| * (weight with a's sign) stays within int16 in pairs.
constexpr bool kInt8Start = false;
inline IntVec Int8Weights(const std::byte* p) {
  IntVec weights;
  memcpy(&weights, p, sizeof(weights));
  return weights ^ static_cast<int>(0x80808080u);
}
inline IntVec DotInt8(IntVec sums, IntVec weights, IntVec a) {
  const __m512i x = reinterpret_cast<__m512i>(a), w = reinterpret_cast<__m512i>(weights);
  const __m512i signed_w = _mm512_mask_sub_epi8(w, _mm512_movepi8_mask(x), __m512i{}, w);
  const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(x), signed_w);
  const __m512i fours = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
  return sums + reinterpret_cast<IntVec>(fours);
}

#include "core/backend/cpu/kernel_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"

}  // namespace

const Kernels& Avx512Kernels() {
  static constexpr Kernels kKernels =
      MakeKernels("avx512", WeightsFormat::kF32,
                  {.f32 = kF32Product, .bf16 = kBf16Product, .int8 = kInt8Product});
  return kKernels;
}

}  // namespace luna::backend::cpu

#pragma GCC pop_options
#endif  // __x86_64__
