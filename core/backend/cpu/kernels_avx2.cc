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

#include "core/backend/cpu/avx2_vectors.inc"

// The sum is not the intrinsic: g++ 12 moves that, and runs out of registers.
inline IntVec DotWords(IntVec sums, IntVec weights, IntVec a) {
  const IntVec pairs = reinterpret_cast<IntVec>(
      _mm256_madd_epi16(reinterpret_cast<__m256i>(weights), reinterpret_cast<__m256i>(a)));
  asm("vpaddd %1, %0, %0" : "+x"(sums) : "x"(pairs));
  return sums;
}
#include "core/backend/cpu/kernel_bodies.inc"
#include "core/backend/cpu/kv_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"
#include "core/backend/cpu/product_int8_words.inc"

}  // namespace

const Kernels& Avx2Kernels() {
  static constexpr Kernels kKernels = MakeKernels(
      "avx2", WeightsFormat::kInt8, WeightsFormat::kInt8,
      {.f32 = kF32Product, .fast = kWordProducts, .precise = kWordProducts}, kKvFormats);
  return kKernels;
}

}  // namespace luna::backend::cpu

#pragma GCC pop_options
#endif  // __x86_64__
