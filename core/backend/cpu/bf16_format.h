// Weights in bfloat16, two inputs side by side.
#ifndef LUNA_CORE_BACKEND_CPU_BF16_FORMAT_H_
#define LUNA_CORE_BACKEND_CPU_BF16_FORMAT_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/backend/cpu/product.h"

namespace luna::backend::cpu {

// To the nearest, ties to even; NaN stays NaN.
constexpr uint16_t ToBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// A panel is [pairs of inputs][kPanel][2]; an input past the last is 0.
constexpr int Bf16Pairs(int inputs) { return (inputs + 1) / 2; }
int64_t Bf16PanelBytes(int inputs);
void PackBf16(const float* rows, int inputs, std::byte* panel);

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_BF16_FORMAT_H_
