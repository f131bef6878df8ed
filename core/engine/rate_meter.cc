#include "core/engine/rate_meter.h"

#include <algorithm>

namespace luna::engine {

void RateMeter::Add(int64_t count, absl::Time now) {
  if (count == 0) return;
  if (PerSecond(now) == 0) busy_since_ = now;
  const int64_t second = absl::ToUnixSeconds(now);
  Slot& slot = slots_[second % kSlots];
  if (slot.second != second) slot = {second, 0};
  slot.count += count;
}

double RateMeter::PerSecond(absl::Time now) const {
  const int64_t second = absl::ToUnixSeconds(now);
  int64_t sum = 0;
  for (const Slot& slot : slots_) {
    if (slot.second > second - kSlots) sum += slot.count;
  }
  if (sum == 0) return 0;
  const absl::Time window = absl::FromUnixSeconds(second - kSlots + 1);
  const double seconds = absl::ToDoubleSeconds(now - std::max(window, busy_since_));
  return static_cast<double>(sum) / std::max(seconds, 1.0);
}

}  // namespace luna::engine
