// AVX-512. All headers come before the target, so that no inline function of theirs is compiled for
// it and then shared with code that runs anywhere.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "core/backend/checks.h"
#include "core/backend/cpu/bf16_format.h"
#include "core/backend/cpu/int8_format.h"
#include "core/backend/cpu/kernel_paths.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")

namespace luna::backend::cpu {
namespace {

#include "core/backend/cpu/avx512_vectors.inc"

// The sum is not the intrinsic: g++ 12 moves that, and runs out of registers.
inline IntVec DotWords(IntVec sums, IntVec weights, IntVec a) {
  const IntVec pairs = reinterpret_cast<IntVec>(
      _mm512_madd_epi16(reinterpret_cast<__m512i>(weights), reinterpret_cast<__m512i>(a)));
  asm("vpaddd %1, %0, %0" : "+v"(sums) : "v"(pairs));
  return sums;
}
#include "core/backend/cpu/kernel_bodies.inc"
#include "core/backend/cpu/kv_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"
#include "core/backend/cpu/product_int8_words.inc"

}  // namespace

const Kernels& Avx512Kernels() {
  static constexpr Kernels kKernels = MakeKernels(
      "avx512", WeightsFormat::kInt8, WeightsFormat::kInt8,
      {.f32 = kF32Product, .fast = kWordProducts, .precise = kWordProducts}, kKvFormats);
  return kKernels;
}

}  // namespace luna::backend::cpu

#pragma GCC pop_options
#endif  // __x86_64__
