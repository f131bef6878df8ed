// Whole-number weights: levels with one scale for 32 inputs of one output.
//
// int8: levels in [-127, 127], made when a model is packed.
// int4: a file's own Q4_0 or Q4_1 blocks, rearranged: levels in [0, 15], a scale and a minimum in
// f16.
//
// Activations have one scale for 32 inputs of a row, so that a channel that is far larger than the
// others, as real models have them, costs the precision of its own group alone. With 8 bits alone
// real models lose more than they may (docs/decisions/0007-int8.md). So activations are words of 16
// bits, or, where a machine multiplies bytes four at a time, bytes with the values that stand out
// of a group kept apart.
#ifndef LUNA_CORE_BACKEND_CPU_INT8_FORMAT_H_
#define LUNA_CORE_BACKEND_CPU_INT8_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/backend/cpu/product.h"
#include "core/backend/rounding.h"

namespace luna::backend::cpu {

constexpr int64_t RoundUpToLine(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// A panel is its groups one after the other: the levels of kInt8Group inputs and kPanel outputs,
// then kPanel scales in f32. Inputs past the last are 0. Levels lie as they are multiplied:
//   with bytes   [kInt8Group / 4][kPanel][4], each 128 + level
//   with words   [kInt8Group / 2][kPanel][2]
inline constexpr int64_t kInt8GroupLevelBytes = int64_t{kInt8Group} * kPanel;
inline constexpr int64_t kInt8GroupBytes =
    kInt8GroupLevelBytes + kPanel * static_cast<int64_t>(sizeof(float));
constexpr int64_t Int8PanelBytes(int inputs) { return Int8Groups(inputs) * kInt8GroupBytes; }
void PackInt8ForBytes(const float* rows, int inputs, std::byte* panel);
void PackInt8ForWords(const float* rows, int inputs, std::byte* panel);

// The same in 4 bits: the levels, then kPanel scales and kPanel minimums in f16. Two steps of
// levels share their bytes, the first in the low nibbles:
//   with bytes   [kInt8Group / 8][kPanel][4]
//   with words   [kInt8Group / 4][kPanel][2]
inline constexpr int64_t kInt4GroupLevelBytes = kInt8GroupLevelBytes / 2;
inline constexpr int64_t kInt4GroupBytes =
    kInt4GroupLevelBytes + 2 * kPanel * static_cast<int64_t>(sizeof(uint16_t));
constexpr int64_t Int4PanelBytes(int inputs) { return Int8Groups(inputs) * kInt4GroupBytes; }
void PackInt4ForBytes(std::span<const Q4Row, kPanel> rows, int inputs, std::byte* panel);
void PackInt4ForWords(std::span<const Q4Row, kPanel> rows, int inputs, std::byte* panel);

// A row as bytes: [groups][kInt8Group] int8; then [groups] scales in f32; [groups] starts in int32,
// -128 times the sum of a group's bytes: what the 128 in int8 weights adds, taken back; [groups]
// sums of a group's bytes times its scale, in f32, for the minimums of int4 weights; [groups]
// [kOutliers] outliers, whose bytes are 0; [groups][kOutliers] bytes that are 1 where there is one,
// and 0 up to a multiple of kGroupsTogether groups.
namespace int8_bytes {
struct Outlier {
  float value;
  int32_t one;   // a 1 in the byte of its input, of the four of its step
  int32_t step;  // the first of those in the group
};
inline constexpr int kOutliers = 2;  // of a group at most
inline constexpr int kGroupsTogether = 4;
// How many times the root mean square of its group a value is that is an outlier.
inline constexpr float kStandsOut = 4.0f;
constexpr int64_t ScalesOffset(int inputs) { return int64_t{Int8Groups(inputs)} * kInt8Group; }
constexpr int64_t StartsOffset(int inputs) {
  return ScalesOffset(inputs) + Int8Groups(inputs) * int64_t{4};
}
constexpr int64_t SumsOffset(int inputs) {
  return StartsOffset(inputs) + Int8Groups(inputs) * int64_t{4};
}
constexpr int64_t OutliersOffset(int inputs) {
  return SumsOffset(inputs) + Int8Groups(inputs) * int64_t{4};
}
constexpr int64_t TakenOffset(int inputs) {
  return OutliersOffset(inputs) +
         Int8Groups(inputs) * kOutliers * static_cast<int64_t>(sizeof(Outlier));
}
int64_t RowBytes(int inputs);
}  // namespace int8_bytes

// A row as words: [groups][kInt8Group] int16, then [groups] scales in f32, then [groups] sums of a
// group's words times its scale, in f32.
namespace int8_words {
inline constexpr int64_t kGroupBytes = 2 * kInt8Group;
constexpr int64_t ScalesOffset(int inputs) { return Int8Groups(inputs) * kGroupBytes; }
constexpr int64_t SumsOffset(int inputs) {
  return ScalesOffset(inputs) + Int8Groups(inputs) * int64_t{4};
}
int64_t RowBytes(int inputs);
}  // namespace int8_words

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_INT8_FORMAT_H_
