// What every machine can run: vectors of four floats, a product and a sum rounded each.
#include <cstdint>
#include <cstring>

#include "core/backend/checks.h"
#include "core/backend/cpu/bf16_format.h"
#include "core/backend/cpu/int8_format.h"
#include "core/backend/cpu/kernel_paths.h"

namespace luna::backend::cpu {
namespace {

constexpr int kWidth = 4;
using Vec = float __attribute__((vector_size(kWidth * sizeof(float))));
using IntVec = int32_t __attribute__((vector_size(kWidth * sizeof(float))));
using Bytes = int8_t __attribute__((vector_size(kWidth)));
constexpr int kTileRows = 2;
constexpr int kTilePanels = 1;
constexpr int kInt8Rows = 2;
constexpr int kInt8Panels = 1;
constexpr int kAttendSums = 8;

inline IntVec WidenBytes(Bytes v) { return __builtin_convertvector(v, IntVec); }
inline Bytes NarrowInts(IntVec v) { return __builtin_convertvector(v, Bytes); }
inline Vec MulAdd(Vec a, Vec b, Vec c) { return a * b + c; }
inline float Sum(Vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }

inline float Largest(Vec v) {
  const float a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
  return a > b ? a : b;
}

constexpr bool kInt8Start = true;
inline IntVec Int8Weights(const std::byte* p) {
  IntVec weights;
  memcpy(&weights, p, sizeof(weights));
  return weights;
}
inline IntVec DotInt8(IntVec sums, IntVec weights, IntVec a) {
  uint8_t w[sizeof(weights)];
  int8_t x[sizeof(a)];
  memcpy(w, &weights, sizeof(w));
  memcpy(x, &a, sizeof(x));
  for (int lane = 0; lane < kWidth; ++lane) {
    for (int j = 4 * lane; j < 4 * lane + 4; ++j) sums[lane] += w[j] * x[j];
  }
  return sums;
}

#include "core/backend/cpu/kernel_bodies.inc"
#include "core/backend/cpu/kv_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"

}  // namespace

const Kernels& PortableKernels() {
  static constexpr Kernels kKernels = MakeKernels("portable", WeightsFormat::kF32,
                                                  {.f32 = kF32Product,
                                                   .bf16 = kBf16Product,
                                                   .int8 = kInt8Product<false>,
                                                   .int8_of_16_bits = kInt8Product<true>},
                                                  kKvFormats);
  return kKernels;
}

}  // namespace luna::backend::cpu
