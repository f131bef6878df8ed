// Int8 weights: whole numbers in [-127, 127] with one scale for 32 inputs of one output.
// Activations have one scale for 32 inputs of a row, so that a channel that is far larger than the
// others, as real models have them, costs the precision of its own group alone. A group that one of
// its values stands out of has 16 bits, in two bytes; the others have 8. With 8 alone real models
// lose more than they may (docs/decisions/0007-int8.md).
#ifndef LUNA_CORE_BACKEND_CPU_INT8_FORMAT_H_
#define LUNA_CORE_BACKEND_CPU_INT8_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "core/backend/cpu/product.h"

namespace luna::backend::cpu {

inline constexpr int kInt8Group = 32;
constexpr int Int8Groups(int inputs) { return (inputs + kInt8Group - 1) / kInt8Group; }

// A panel is its groups one after the other: [kInt8Group / 4][kPanel][4] bytes, each 128 + weight,
// then kPanel scales in f32. Inputs past the last are 0 (128).
inline constexpr int kInt8Steps = kInt8Group / 4;
inline constexpr int64_t kInt8StepBytes = int64_t{kPanel} * 4;
inline constexpr int64_t kInt8GroupBytes =
    kInt8Steps * kInt8StepBytes + kPanel * static_cast<int64_t>(sizeof(float));

// A prepared row: [groups][2][kInt8Group] int8, a group's high bytes, then its low ones; then
// [groups] scales in f32, [groups][2] starts in int32, [groups] bytes that are 1 where the low
// bytes are not all 0. A value is scale * (high + low / 256). A start is -128 times the sum of the
// group's high, or low, bytes: what the 128 in the weights adds, taken back.
inline constexpr int64_t kInt8RowGroupBytes = 2 * kInt8Group;
constexpr int64_t Int8ScalesOffset(int inputs) { return Int8Groups(inputs) * kInt8RowGroupBytes; }
constexpr int64_t Int8StartsOffset(int inputs) {
  return Int8ScalesOffset(inputs) + Int8Groups(inputs) * int64_t{4};
}
constexpr int64_t Int8HasLowOffset(int inputs) {
  return Int8StartsOffset(inputs) + Int8Groups(inputs) * int64_t{8};
}
// How many times the root mean square of its group a value is that stands out.
inline constexpr float kInt8StandsOut = 3.0f;

int64_t Int8PanelBytes(int inputs);
int64_t Int8RowBytes(int inputs);
void PackInt8(const float* rows, int inputs, std::byte* panel);

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_INT8_FORMAT_H_
