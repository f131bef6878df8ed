// Time as a dependency, so that tests own it.
#ifndef LUNA_CORE_BASE_CLOCK_H_
#define LUNA_CORE_BASE_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace luna {

// Thread-safe. Used for deadlines and statistics, never for a decision about a session's words.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

// Stands still until it is advanced.
class FakeClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixNanos(nanos_.load()); }
  void Advance(absl::Duration by) { nanos_ += absl::ToInt64Nanoseconds(by); }

 private:
  std::atomic<int64_t> nanos_{1'000'000'000};
};

}  // namespace luna

#endif  // LUNA_CORE_BASE_CLOCK_H_
