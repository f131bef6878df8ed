// How weights are rounded to fewer bits, the same for every backend.
#ifndef LUNA_CORE_BACKEND_ROUNDING_H_
#define LUNA_CORE_BACKEND_ROUNDING_H_

#include <bit>
#include <cstdint>
#include <span>

namespace luna::backend {

// To bfloat16, the nearest, ties to even; NaN stays NaN.
constexpr uint16_t ToBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Inputs that share a scale in int8 weights.
inline constexpr int kInt8Group = 32;
constexpr int Int8Groups(int inputs) { return (inputs + kInt8Group - 1) / kInt8Group; }

// A group's scale: weight = level * scale, levels in [-127, 127]. Weights that a file holds as a
// scale times whole numbers of up to 16 keep their values (docs/decisions/0007-int8.md).
struct Int8Scale {
  explicit Int8Scale(std::span<const float> weights);  // at most kInt8Group
  int Level(float weight) const;
  float scale = 0.0f;
  float inverse = 0.0f;  // 0 where all weights are 0
};

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_ROUNDING_H_
