// AVX2 with FMA and F16C. All headers come before the target, so that no inline function of theirs
// is compiled for it and then shared with code that runs anywhere.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "core/backend/checks.h"
#include "core/backend/cpu/bf16_format.h"
#include "core/backend/cpu/int8_format.h"
#include "core/backend/cpu/kernel_paths.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")

namespace luna::backend::cpu {
namespace {

constexpr int kWidth = 8;
using Vec = float __attribute__((vector_size(kWidth * sizeof(float))));
using IntVec = int32_t __attribute__((vector_size(kWidth * sizeof(float))));
using Bytes = int8_t __attribute__((vector_size(kWidth)));
constexpr int kTileRows = 6;
constexpr int kTilePanels = 1;
constexpr int kInt8Rows = 6;
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

inline IntVec LoadPairs(const std::byte* p) {
  return reinterpret_cast<IntVec>(
      _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline Vec LoadHalves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// The sum is not the intrinsic: g++ 12 moves that, and runs out of registers.
inline IntVec DotWords(IntVec sums, IntVec weights, IntVec a) {
  const IntVec pairs = reinterpret_cast<IntVec>(
      _mm256_madd_epi16(reinterpret_cast<__m256i>(weights), reinterpret_cast<__m256i>(a)));
  asm("vpaddd %1, %0, %0" : "+x"(sums) : "x"(pairs));
  return sums;
}
inline void StoreWords(Vec v, std::byte* p) {
  const __m256i ints = reinterpret_cast<__m256i>(__builtin_convertvector(v, IntVec));
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packs_epi32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1)));
}

#include "core/backend/cpu/kernel_bodies.inc"
#include "core/backend/cpu/kv_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"
#include "core/backend/cpu/product_int8_words.inc"

}  // namespace

const Kernels& Avx2Kernels() {
  static constexpr Kernels kKernels = MakeKernels("avx2", WeightsFormat::kInt8,
                                                  {.f32 = kF32Product,
                                                   .bf16 = kBf16Product,
                                                   .fast = kIntWordProducts,
                                                   .precise = kIntWordProducts},
                                                  kKvFormats);
  return kKernels;
}

}  // namespace luna::backend::cpu

#pragma GCC pop_options
#endif  // __x86_64__
