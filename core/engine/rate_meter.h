// How many of something happened per second, lately.
#ifndef LUNA_CORE_ENGINE_RATE_METER_H_
#define LUNA_CORE_ENGINE_RATE_METER_H_

#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace luna::engine {

// Over the last five seconds, in slots of one second; over less if it has counted for less, and
// never over less than one. Owned by one thread; never allocates.
class RateMeter {
 public:
  void Add(int64_t count, absl::Time now);
  double PerSecond(absl::Time now) const;

 private:
  static constexpr int64_t kSlots = 5;
  struct Slot {
    int64_t second = -1;  // since the epoch
    int64_t count = 0;
  };
  std::array<Slot, kSlots> slots_;
  absl::Time busy_since_ = absl::InfiniteFuture();  // when counting began after the last silence
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_RATE_METER_H_
