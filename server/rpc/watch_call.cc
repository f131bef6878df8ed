#include "server/rpc/watch_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "server/rpc/convert.h"
#include "server/rpc/peer.h"
#include "server/rpc/status.h"

namespace luna::rpc {
namespace {

absl::StatusOr<absl::Duration> ToInterval(const v1::WatchMemoryRequest& request) {
  if (!request.has_interval()) return kDefaultWatchInterval;
  // Compared as they stand: sums of hostile seconds and nanoseconds saturate.
  const absl::Duration interval =
      absl::Seconds(request.interval().seconds()) + absl::Nanoseconds(request.interval().nanos());
  if (interval >= kMinWatchInterval && interval <= absl::Hours(24)) return interval;
  return InvalidField("interval",
                      absl::StrCat(absl::FormatDuration(interval), " is outside [50ms, 24h]"));
}

}  // namespace

void WatchCall::Listen(Host* host, const Method* method) {
  auto call = std::make_shared<WatchCall>(host, method);
  call->context_.AsyncNotifyWhenDone(call->done_.Start(call));
  method->next(&call->context_, &call->request_, &call->writer_, call->requested_.Start(call));
}

void WatchCall::OnRequested(bool ok) {
  if (!ok) {
    done_.Drop();
    return;
  }
  ticket_.emplace(&host_->calls());
  Listen(host_, method_);
  if (absl::Status loaded = host_->CheckLoaded(); !loaded.ok()) return Finish(loaded);
  const absl::StatusOr<absl::Duration> interval = ToInterval(request_);
  if (!interval.ok()) return Finish(interval.status());
  interval_ = *interval;
  caller_ = ParsePeer(context_.peer()).name;
  due_ = gpr_now(GPR_CLOCK_MONOTONIC);
  method_->began(shared_from_this());
  AskForSnapshot();
}

void WatchCall::AskForSnapshot() { method_->snapshots->Ask(shared_from_this()); }

void WatchCall::OnSnapshot(const absl::StatusOr<engine::Snapshot>& snapshot) {
  if (gone_) return;
  if (!snapshot.ok()) return Finish(snapshot.status());
  current_ = ToProto(*snapshot, caller_);
  writer_.Write(current_, written_.Start(shared_from_this()));
}

void WatchCall::OnWritten(bool ok) {
  if (!ok) gone_ = true;
  WaitForNext();
}

void WatchCall::WaitForNext() {
  if (gone_) return;
  if (stopping_) return Finish(absl::UnavailableError("the server shuts down"));
  const gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);
  due_ =
      gpr_time_add(due_, gpr_time_from_micros(absl::ToInt64Microseconds(interval_), GPR_TIMESPAN));
  if (gpr_time_cmp(due_, now) < 0) due_ = now;
  alarm_.Set(host_->loop().queue(), due_, alarmed_.Start(shared_from_this()));
}

void WatchCall::OnAlarm(bool) {
  if (gone_) return;
  if (stopping_) return Finish(absl::UnavailableError("the server shuts down"));
  AskForSnapshot();
}

void WatchCall::OnDone(bool) {
  if (!context_.IsCancelled()) return;
  gone_ = true;
  if (alarmed_.pending()) alarm_.Cancel();
}

void WatchCall::Stop() {
  stopping_ = true;
  // Whatever else is pending sees stopping_ when it ends.
  if (alarmed_.pending()) alarm_.Cancel();
}

void WatchCall::Finish(const absl::Status& status) {
  if (finishing_ || gone_) return;
  finishing_ = true;
  writer_.Finish(ToGrpc(status), finished_.Start(shared_from_this()));
}

}  // namespace luna::rpc
