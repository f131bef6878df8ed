#include "core/backend/rounding.h"

#include <algorithm>
#include <cmath>

namespace luna::backend {
namespace {

// What the largest of a group's weights may become, so that weights which a file holds as d * q
// with whole numbers |q| <= 16 keep their values: for each largest |q| its largest multiple up to
// 127.
constexpr float kTops[] = {127, 126, 125, 124, 121, 120, 117, 112};

bool KeepsValues(std::span<const float> weights, float inverse) {
  return std::ranges::all_of(weights, [&](float weight) {
    const float level = weight * inverse;
    return std::fabs(level - std::nearbyint(level)) < 1e-3f;
  });
}

float TopOf(std::span<const float> weights, float largest) {
  for (const float top : kTops) {
    if (KeepsValues(weights, top / largest)) return top;
  }
  return kTops[0];
}

}  // namespace

Int8Scale::Int8Scale(std::span<const float> weights) {
  float largest = 0.0f;
  for (const float weight : weights) largest = std::max(largest, std::fabs(weight));
  if (largest == 0.0f) return;
  const float top = TopOf(weights, largest);
  scale = largest / top;
  inverse = top / largest;
}

int Int8Scale::Level(float weight) const {
  return std::clamp(static_cast<int>(std::lrintf(weight * inverse)), -127, 127);
}

}  // namespace luna::backend
