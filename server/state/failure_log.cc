#include "server/state/failure_log.h"

#include <spdlog/spdlog.h>

namespace luna::state {

void FailureLog::Note(std::string_view doing, const absl::Status& status) {
  Kind& kind = kinds_[{std::string(doing), status.code()}];
  const absl::Time now = clock_->Now();
  if (now < kind.next_line) {
    ++kind.unsaid;
    return;
  }
  if (kind.unsaid == 0) {
    spdlog::warn("{}: {}", doing, status.ToString());
  } else {
    spdlog::warn("{}: {} ({} more like it since the last line)", doing, status.ToString(),
                 kind.unsaid);
  }
  kind = {.next_line = now + kFailureLogInterval, .unsaid = 0};
}

}  // namespace luna::state
