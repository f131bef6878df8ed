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

using Words = int16_t __attribute__((vector_size(2 * kWidth * sizeof(int16_t))));
inline IntVec LoadPairs(const std::byte* p) {
  int8_t bytes[2 * kWidth];
  memcpy(bytes, p, sizeof(bytes));
  Words words = {};
  for (int i = 0; i < 2 * kWidth; ++i) words[i] = bytes[i];
  return reinterpret_cast<IntVec>(words);
}
inline Vec LoadHalves(const std::byte* p) {
  _Float16 halves[kWidth];
  memcpy(halves, p, sizeof(halves));
  Vec v;
  for (int i = 0; i < kWidth; ++i) v[i] = static_cast<float>(halves[i]);
  return v;
}
inline IntVec DotWords(IntVec sums, IntVec weights, IntVec a) {
  // The high word of each lane with its sign, and the low one.
  return sums + (weights >> 16) * (a >> 16) + (weights << 16 >> 16) * (a << 16 >> 16);
}
inline void StoreWords(Vec v, std::byte* p) {
  int16_t words[kWidth];
  for (int i = 0; i < kWidth; ++i) words[i] = static_cast<int16_t>(v[i]);
  memcpy(p, words, sizeof(words));
}

#include "core/backend/cpu/kernel_bodies.inc"
#include "core/backend/cpu/kv_bodies.inc"
#include "core/backend/cpu/product_bodies.inc"
#include "core/backend/cpu/product_int8_words.inc"

}  // namespace

const Kernels& PortableKernels() {
  static constexpr Kernels kKernels = MakeKernels(
      "portable", WeightsFormat::kF32, WeightsFormat::kF32,
      {.f32 = kF32Product, .fast = kWordProducts, .precise = kWordProducts}, kKvFormats);
  return kKernels;
}

}  // namespace luna::backend::cpu
