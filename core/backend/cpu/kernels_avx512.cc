// AVX-512. All headers come before the target, so that no inline function of theirs is compiled for
// it and then shared with code that runs anywhere.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "core/backend/cpu/kernel_paths.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx2,fma")

namespace luna::backend::cpu {
namespace {

constexpr int kWidth = 16;
using Vec = float __attribute__((vector_size(kWidth * sizeof(float))));
using IntVec = int32_t __attribute__((vector_size(kWidth * sizeof(float))));
constexpr int kTileRows = 6;
constexpr int kTilePanels = 4;

inline Vec MulAdd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline float Sum(Vec v) {
  // Not _mm512_castps512_ps256 and its kin: g++ 12 warns of uninitialized values inside them.
  const __m256 quarter = _mm256_add_ps(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                                       __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(quarter), _mm256_extractf128_ps(quarter, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

#include "core/backend/cpu/kernel_bodies.inc"

}  // namespace

const Kernels& Avx512Kernels() {
  static constexpr Kernels kKernels = MakeKernels("avx512");
  return kKernels;
}

}  // namespace luna::backend::cpu

#pragma GCC pop_options
#endif  // __x86_64__
