// AVX2 with FMA. All headers come before the target, so that no inline function of theirs is
// compiled for it and then shared with code that runs anywhere.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "core/backend/checks.h"
#include "core/backend/cpu/bf16_format.h"
#include "core/backend/cpu/int8_format.h"
#include "core/backend/cpu/kernel_paths.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma")

namespace luna::backend::cpu {
namespace {

constexpr int kWidth = 8;
using Vec = float __attribute__((vector_size(kWidth * sizeof(float))));
using IntVec = int32_t __attribute__((vector_size(kWidth * sizeof(float))));
using Bytes = int8_t __attribute__((vector_size(kWidth)));
constexpr int kTileRows = 6;
constexpr int kTilePanels = 1;
constexpr int kInt8Rows = 2;
constexpr int kInt8Panels = 1;
constexpr int kAttendSums = 8;

inline IntVec WidenBytes(Bytes v) {
  int64_t bits;
  memcpy(&bits, &v, sizeof(bits));
  return reinterpret_cast<IntVec>(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(bits)));
}
inline Bytes NarrowInts(IntVec v) {
  const __m256i ints = reinterpret_cast<__m256i>(v);
  const __m128i shorts =
      _mm_packs_epi32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1));
  const int64_t bits = _mm_cvtsi128_si64(_mm_packs_epi16(shorts, shorts));
  Bytes bytes;
  memcpy(&bytes, &bits, sizeof(bytes));
  return bytes;
}
inline Vec MulAdd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline float Sum(Vec v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

inline float Largest(Vec v) {
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
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
  const __m256i x = reinterpret_cast<__m256i>(a), w = reinterpret_cast<__m256i>(weights);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(w, x));
  const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  return sums + reinterpret_cast<IntVec>(fours);
}

#include "core/backend/cpu/kernel_bodies.inc"
#include "core/backend/cpu/kv_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"

}  // namespace

const Kernels& Avx2Kernels() {
  static constexpr Kernels kKernels = MakeKernels("avx2", WeightsFormat::kF32,
                                                  {.f32 = kF32Product,
                                                   .bf16 = kBf16Product,
                                                   .int8 = kInt8Product<false>,
                                                   .int8_of_16_bits = kInt8Product<true>},
                                                  kKvFormats);
  return kKernels;
}

}  // namespace luna::backend::cpu

#pragma GCC pop_options
#endif  // __x86_64__
