#include "server/resume.h"

#include <spdlog/spdlog.h>

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/status_details.h"
#include "server/state/entry_name.h"

namespace luna::server {
namespace {

constexpr int kMaxLines = 10;  // in the log

// Waits for the engine, so that no more than one session is on its way at a time.
absl::Status Resume(engine::SavedSession saved, engine::Engine& engine) {
  auto done = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> status = done->get_future();
  engine.RestoreSession(
      std::move(saved), {.trusted = true, .resumed = true},
      [done](const absl::StatusOr<engine::SessionInfo>& info) { done->set_value(info.status()); });
  return status.get();
}

}  // namespace

absl::Status ResumeSessions(state::StateKeeper& keeper, engine::Engine& engine) {
  int resumed = 0, failed = 0;  // the keeper's thread's, until `done`
  auto done = std::make_shared<std::promise<absl::Status>>();
  keeper.LoadAll(
      [&](const std::string& key, absl::StatusOr<engine::SavedSession> session) {
        const absl::Status status =
            session.ok() ? Resume(*std::move(session), engine) : session.status();
        if (status.ok()) {
          ++resumed;
        } else if (++failed <= kMaxLines) {
          spdlog::warn("saved session {} does not go on: {}", state::ShownEntry(key),
                       status.ToString());
        }
        // Nor does any that follows, unless this one lacks its guarantee alone.
        return !absl::IsResourceExhausted(status) || !FieldOf(status).empty();
      },
      [done](const absl::Status& status) { done->set_value(status); });
  const absl::Status status = done->get_future().get();
  if (failed > kMaxLines) {
    spdlog::warn("saved sessions that do not go on either: {}", failed - kMaxLines);
  }
  if (resumed > 0) spdlog::info("saved sessions that go on: {}", resumed);
  return status;
}

}  // namespace luna::server
