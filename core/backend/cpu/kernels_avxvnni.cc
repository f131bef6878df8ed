// AVX2 with FMA and F16C, and VNNI without AVX-512 (AVX-VNNI). All headers come before the target,
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
#pragma GCC target("avx2,fma,f16c,avxvnni")

namespace luna::backend::cpu {
namespace {

#include "core/backend/cpu/avx2_vectors.inc"

// Not the intrinsics: g++ 12 copies their accumulators and halves the speed.
inline IntVec DotBytes(IntVec sums, IntVec weights, IntVec a) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(weights), "x"(a));
  return sums;
}
inline IntVec DotWords(IntVec sums, IntVec weights, IntVec a) {
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sums) : "x"(weights), "x"(a));
  return sums;
}
inline uint32_t LanesEqual(Vec v, Vec w) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(v, w, _CMP_EQ_OQ)));
}

#include "core/backend/cpu/kernel_bodies.inc"
#include "core/backend/cpu/kv_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"
#include "core/backend/cpu/product_int8_bytes.inc"
#include "core/backend/cpu/product_int8_words.inc"

}  // namespace

const Kernels& AvxVnniKernels() {
  static constexpr Kernels kKernels = MakeKernels(
      "avxvnni", WeightsFormat::kInt8, WeightsFormat::kInt4,
      {.f32 = kF32Product, .fast = kByteProducts, .precise = kWordProducts}, kKvFormats);
  return kKernels;
}

}  // namespace luna::backend::cpu

#pragma GCC pop_options
#endif  // __x86_64__
