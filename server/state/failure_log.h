// Failures that nobody waits for, in the log: each kind once in a while, however often it happens.
#ifndef LUNA_SERVER_STATE_FAILURE_LOG_H_
#define LUNA_SERVER_STATE_FAILURE_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace luna::state {

inline constexpr absl::Duration kFailureLogInterval = absl::Minutes(1);

// One thread's.
class FailureLog {
 public:
  // Borrows the clock.
  explicit FailureLog(const Clock* clock) : clock_(clock) {}

  // A kind is what was done and the status' code.
  void Note(std::string_view doing, const absl::Status& status);

 private:
  struct Kind {
    absl::Time next_line = absl::InfinitePast();
    uint64_t unsaid = 0;
  };

  const Clock* const clock_;
  std::map<std::pair<std::string, absl::StatusCode>, Kind> kinds_;
};

}  // namespace luna::state

#endif  // LUNA_SERVER_STATE_FAILURE_LOG_H_
