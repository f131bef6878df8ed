#include "server/rpc/restore_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "server/rpc/convert.h"
#include "server/rpc/peer.h"
#include "server/rpc/status.h"
#include "server/state/entry_name.h"
#include "server/state/snapshot_format.h"
#include "server/state/state_keeper.h"

namespace luna::rpc {

void RestoreCall::Listen(Host* host, v1::SessionService::AsyncService* service) {
  auto call = std::make_shared<RestoreCall>(host, service);
  call->context_.AsyncNotifyWhenDone(call->done_.Start(call));
  grpc::ServerCompletionQueue* queue = host->loop().queue();
  service->RequestRestoreSession(&call->context_, &call->reader_, queue, queue,
                                 call->requested_.Start(call));
}

void RestoreCall::OnRequested(bool ok) {
  if (!ok) {
    done_.Drop();
    return;
  }
  ticket_.emplace(&host_->calls());
  Listen(host_, service_);
  caller_ = ParsePeer(context_.peer()).name;
  budget_.emplace(&host_->snapshot_bytes(), caller_);
  absl::Status open = host_->CheckOpen();
  if (open.ok()) open = budget_->Grow(kSnapshotCallBytes);
  if (!open.ok()) return Finish(open);
  const gpr_timespec patience =
      gpr_time_from_micros(absl::ToInt64Microseconds(kRestorePatience), GPR_TIMESPAN);
  alarm_.Set(host_->loop().queue(), gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), patience),
             alarmed_.Start(shared_from_this()));
  reader_.Read(&chunk_, read_.Start(shared_from_this()));
}

void RestoreCall::OnAlarm(bool) {
  if (loading_ || gone_ || finishing_) return;
  Finish(absl::DeadlineExceededError(
      absl::StrCat("the snapshot has not come within ", absl::FormatDuration(kRestorePatience))));
}

void RestoreCall::OnRead(bool ok) {
  if (gone_ || finishing_) return;
  // At the end of what the client sends, which looks the same where it left; but then nothing can
  // be sent to it.
  if (!ok) return reader_.SendInitialMetadata(begun_.Start(shared_from_this()));
  if (absl::Status taken = Take(); !taken.ok()) return Finish(taken);
  reader_.Read(&chunk_, read_.Start(shared_from_this()));
}

absl::Status RestoreCall::Take() {
  if (!name_.empty()) return InvalidField("name", "a chunk with a name is the only one");
  if (!chunk_.name().empty()) {
    if (!snapshot_.empty() || !chunk_.data().empty()) {
      return InvalidField("name", "a chunk with a name is the only one, and has no data");
    }
    LUNA_RETURN_IF_ERROR(host_->CheckKeeper());
    LUNA_ASSIGN_OR_RETURN(name_, state::EntryOf(caller_, chunk_.name()));
    return absl::OkStatus();
  }
  const size_t limit = host_->serving()->max_snapshot_bytes;
  if (chunk_.data().size() > limit - snapshot_.size()) {
    return InvalidField("data", absl::StrCat("more than ", limit,
                                             " bytes, the most that a session of this model has"));
  }
  LUNA_RETURN_IF_ERROR(budget_->Grow(chunk_.ByteSizeLong()));
  snapshot_.append(chunk_.data());
  return absl::OkStatus();
}

void RestoreCall::OnBegun(bool ok) {
  if (!ok) gone_ = true;
  if (gone_ || finishing_) return;
  loading_ = true;
  if (alarmed_.pending()) alarm_.Cancel();
  if (absl::Status begun = Load(); !begun.ok()) Finish(begun);
}

void RestoreCall::OnReady() {
  if (gone_) return;
  if (!outcome_->ok()) return Finish(outcome_->status());
  finishing_ = true;
  reader_.Finish(ToProto(**outcome_), grpc::Status::OK, finished_.Start(shared_from_this()));
}

absl::Status RestoreCall::Load() {
  if (!name_.empty()) {
    host_->serving()->keeper->Load(
        name_, [self = shared_from_this()](absl::StatusOr<engine::SavedSession> saved) {
          self->OnLoaded(std::move(saved), /*trusted=*/true);
        });
    return absl::OkStatus();
  }
  if (snapshot_.empty()) return InvalidField("data", "no chunk had any, nor a name");
  const bool queued = host_->workers().Run(caller_, snapshot_.size(), [self = shared_from_this()] {
    self->OnLoaded(state::DecodeSnapshot(self->snapshot_, "snapshot"), /*trusted=*/false);
  });
  if (queued) return absl::OkStatus();
  return Host::WorkersAreBusy("requests of this caller wait to be looked at");
}

void RestoreCall::OnLoaded(absl::StatusOr<engine::SavedSession> saved, bool trusted) {
  if (!saved.ok()) return Resolve(saved.status());
  if (gone_) return;
  host_->serving()->engine->RestoreSession(
      *std::move(saved), {.caller = caller_, .trusted = trusted},
      [self = shared_from_this()](absl::StatusOr<engine::SessionInfo> info) {
        self->Resolve(std::move(info));
      });
}

void RestoreCall::Resolve(absl::StatusOr<engine::SessionInfo> outcome) {
  outcome_ = std::move(outcome);
  host_->loop().Post(shared_from_this());
}

void RestoreCall::OnDone(bool) {
  if (context_.IsCancelled()) gone_ = true;
  if (alarmed_.pending()) alarm_.Cancel();
}

void RestoreCall::Finish(const absl::Status& status) {
  finishing_ = true;
  reader_.FinishWithError(ToGrpc(status), finished_.Start(shared_from_this()));
}

}  // namespace luna::rpc
