#include "core/sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/sample/random.h"

namespace luna::sample {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// The weight of the largest logit; 2^18 tokens of it still sum far below 2^64.
constexpr double kUnitWeight = 0x1p40;
// Nearly every draw ends within the first few hundred candidates: those are selected in one scan, and
// only a draw from the tail pays for ordering more, eight times as many at a time.
constexpr size_t kFirstCandidates = 256;
constexpr size_t kGrowth = 8;

uint64_t Weight(float logit, float largest, double temperature) {
  const double exponent = (double{logit} - double{largest}) / temperature;
  return static_cast<uint64_t>(std::exp(exponent) * kUnitWeight);
}

// A penalty near zero may push a logit over the range of float, where differences lose their
// meaning; -Inf stays what it is: a token that cannot be chosen.
float KeepFinite(float logit) {
  constexpr float kLimit = std::numeric_limits<float>::max();
  return logit == -kInfinity ? logit : std::clamp(logit, -kLimit, kLimit);
}

float PenalizeRepetition(float logit, float penalty) {
  if (logit == -kInfinity) return logit;
  return KeepFinite(std::max(logit > 0.0f ? logit / penalty : logit * penalty,
                             -std::numeric_limits<float>::max()));
}

// False if a logit is NaN or +Inf, or none is above -Inf.
bool AreUsable(std::span<const float> logits) {
  bool below_infinity = true;
  bool any = false;
  for (const float logit : logits) {
    below_infinity &= logit < kInfinity;  // false for NaN
    any |= logit > -kInfinity;
  }
  return below_infinity && any;
}

TokenId ArgMax(std::span<const float> logits) {
  // The first of equals.
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

Sampler::Sampler(int vocab_size) : counts_(vocab_size, 0) {
  candidates_.reserve(vocab_size);
  raw_.reserve(vocab_size);
}
