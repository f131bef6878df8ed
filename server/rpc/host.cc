#include "server/rpc/host.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_details.h"

namespace luna::rpc {
namespace {

// Two, so that one long text does not hold up everybody else's short ones.
constexpr int kWorkers = 2;

constexpr size_t kSnapshotBytesPerCaller = size_t{64} << 20;

}  // namespace

bool LiveCalls::WaitUntilNone(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  if (deadline == absl::InfiniteFuture()) {
    none_.wait(lock, [this] { return count_ == 0; });
    return true;
  }
  return none_.wait_until(lock, absl::ToChronoTime(deadline), [this] { return count_ == 0; });
}

void LiveCalls::Add(int change) {
  std::lock_guard lock(mutex_);
  count_ += change;
  // Under the lock: the waiting thread may destroy this as soon as it sees zero.
  if (count_ == 0) none_.notify_all();
}

Host::Host(std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : snapshot_bytes_(kSnapshotBytesPerCaller),
      loop_(std::move(queue)),
      workers_(kWorkers, WorkerPool::LaneLimits()) {}

absl::Status Host::CheckLoaded() const {
  if (serving() != nullptr) return absl::OkStatus();
  return absl::UnavailableError("the model is still loading");
}

absl::Status Host::CheckOpen() const {
  if (draining_.load(std::memory_order_relaxed)) {
    return absl::UnavailableError("the server is draining and takes nothing new");
  }
  return CheckLoaded();
}

absl::Status Host::WorkersAreBusy(std::string_view waiting) {
  return WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat("too many ", AbslView(waiting))),
                        absl::Seconds(1));
}

absl::Status Host::CheckKeeper() const {
  if (serving()->keeper != nullptr) return absl::OkStatus();
  return WithField(absl::FailedPreconditionError(
                       "this server keeps no state directory (--state-dir); leave the name empty "
                       "to carry the session yourself"),
                   "name");
}

}  // namespace luna::rpc
