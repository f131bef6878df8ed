// Weights in bfloat16, two inputs side by side.
#ifndef LUNA_CORE_BACKEND_CPU_BF16_FORMAT_H_
#define LUNA_CORE_BACKEND_CPU_BF16_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "core/backend/cpu/product.h"
#include "core/backend/rounding.h"

namespace luna::backend::cpu {

// A panel is [pairs of inputs][kPanel][2]; an input past the last is 0.
constexpr int Bf16Pairs(int inputs) { return (inputs + 1) / 2; }
int64_t Bf16PanelBytes(int inputs);
void PackBf16(const float* rows, int inputs, std::byte* panel);

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_BF16_FORMAT_H_
