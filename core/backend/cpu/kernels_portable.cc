// What every machine can run: vectors of four floats, a product and a sum rounded each.
#include <cstdint>
#include <cstring>

#include "core/backend/cpu/kernel_paths.h"

namespace luna::backend::cpu {
namespace {

constexpr int kWidth = 4;
using Vec = float __attribute__((vector_size(kWidth * sizeof(float))));
using IntVec = int32_t __attribute__((vector_size(kWidth * sizeof(float))));
constexpr int kTileRows = 2;
constexpr int kTilePanels = 1;

inline Vec MulAdd(Vec a, Vec b, Vec c) { return a * b + c; }
inline float Sum(Vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }

#include "core/backend/cpu/kernel_bodies.inc"

}  // namespace

const Kernels& PortableKernels() {
  static constexpr Kernels kKernels = MakeKernels("portable");
  return kKernels;
}

}  // namespace luna::backend::cpu
