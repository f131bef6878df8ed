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

constexpr int kInt8Rows = 4;
constexpr int kInt8Panels = 2;

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
#include "core/backend/cpu/kv_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"

}  // namespace

const Kernels& Avx512Kernels() {
  static constexpr Kernels kKernels = MakeKernels("avx512", WeightsFormat::kF32,
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
