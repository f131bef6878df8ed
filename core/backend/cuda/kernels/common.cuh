// Small things that several kernels need.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_COMMON_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_COMMON_CUH_

#include <cstdint>

#include "core/backend/cuda/kernels/platform.cuh"
#include "core/backend/cuda/step_layout.h"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

template <typename T>
LUNA_DEVICE const T* At(const StepHeader* header, int32_t offset) {
  return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(header) + offset);
}

template <typename To, typename From>
LUNA_DEVICE To BitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

LUNA_DEVICE int Smaller(int a, int b) { return a < b ? a : b; }
LUNA_DEVICE int Larger(int a, int b) { return a > b ? a : b; }

// --- bf16 ----------------------------------------------------------------------------------------

LUNA_DEVICE float LowBf16(uint32_t pair) { return BitsAs<float>(pair << 16); }
LUNA_DEVICE float HighBf16(uint32_t pair) { return BitsAs<float>(pair & 0xffff0000u); }

// A pair of values as two bf16 each, the second what the first leaves: 16 bits of precision
// together, so that rounding activations costs less than rounding weights.
struct SplitPair {
  uint32_t high, low;
};
LUNA_DEVICE SplitPair Split(float a, float b) {
  SplitPair split;
  split.high = PackBf16(a, b);
  split.low = PackBf16(a - LowBf16(split.high), b - HighBf16(split.high));
  return split;
}

// --- sums over a fragment of a product -----------------------------------------------------------

// Over the lanes that have the same columns of an mma's accumulators, in a fixed order.
LUNA_DEVICE float SumOverRows(float value) {
  for (int mask = 4; mask < kWarpSize; mask *= 2) value += ShuffleXor(value, mask);
  return value;
}
LUNA_DEVICE float LargestOverRows(float value) {
  for (int mask = 4; mask < kWarpSize; mask *= 2) value = fmaxf(value, ShuffleXor(value, mask));
  return value;
}

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_COMMON_CUH_
