#include "server/rpc/save_call.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"
#include "server/rpc/peer.h"
#include "server/rpc/status.h"
#include "server/state/entry_name.h"
#include "server/state/saved_session_check.h"
#include "server/state/snapshot_format.h"
#include "server/state/state_keeper.h"

namespace luna::rpc {

void SaveCall::Listen(Host* host, v1::SessionService::AsyncService* service) {
  auto call = std::make_shared<SaveCall>(host, service);
  call->context_.AsyncNotifyWhenDone(call->done_.Start(call));
  grpc::ServerCompletionQueue* queue = host->loop().queue();
  service->RequestSaveSession(&call->context_, &call->request_, &call->writer_, queue, queue,
                              call->requested_.Start(call));
}

void SaveCall::OnRequested(bool ok) {
  if (!ok) {
    done_.Drop();
    return;
  }
  ticket_.emplace(&host_->calls());
  Listen(host_, service_);
  if (absl::Status begun = Begin(); !begun.ok()) Finish(begun);
}

absl::Status SaveCall::Begin() {
  LUNA_RETURN_IF_ERROR(host_->CheckLoaded());
  caller_ = ParsePeer(context_.peer()).name;
  if (!request_.name().empty()) {
    LUNA_RETURN_IF_ERROR(host_->CheckKeeper());
    LUNA_ASSIGN_OR_RETURN(entry_, state::EntryOf(caller_, request_.name()));
  }
  budget_.emplace(&host_->snapshot_bytes(), caller_);
  LUNA_RETURN_IF_ERROR(budget_->Grow(kSnapshotCallBytes));
  host_->serving()->engine->SaveSession(
      request_.session_id(),
      [self = shared_from_this()](absl::StatusOr<engine::SavedSession> saved) {
        self->OnSaved(std::move(saved));
      });
  return absl::OkStatus();
}

void SaveCall::OnSaved(absl::StatusOr<engine::SavedSession> saved) {
  if (!saved.ok()) return Resolve(saved.status());
  if (!entry_.empty()) {
    const auto done = [self = shared_from_this()](const absl::Status& status) {
      self->Resolve(status.ok() ? absl::StatusOr<std::string>("") : status);
    };
    return host_->serving()->keeper->Save(*std::move(saved), entry_, done);
  }
  saved_ = *std::move(saved);
  const bool queued = host_->workers().Run(
      caller_, kSnapshotCallBytes, [self = shared_from_this()] { self->Resolve(self->Encode()); });
  if (!queued) Resolve(Host::WorkersAreBusy("requests of this caller wait to be looked at"));
}

absl::StatusOr<std::string> SaveCall::Encode() const {
  LUNA_RETURN_IF_ERROR(state::CheckSavedSession(saved_));
  return state::EncodeSnapshot(saved_);
}

void SaveCall::Resolve(absl::StatusOr<std::string> snapshot) {
  snapshot_ = std::move(snapshot);
  host_->loop().Post(shared_from_this());
}

void SaveCall::OnReady() {
  if (gone_) return;
  if (!snapshot_.ok()) return Finish(snapshot_.status());
  if (!entry_.empty()) {
    current_.set_name(request_.name());
    return WriteLast();
  }
  saved_ = {};
  const size_t beyond = std::max(snapshot_->size(), kSnapshotCallBytes) - kSnapshotCallBytes;
  if (absl::Status room = budget_->Grow(beyond); !room.ok()) return Finish(room);
  WriteNext();
}

void SaveCall::WriteNext() {
  current_.set_data(snapshot_->substr(written_bytes_, kSnapshotChunkBytes));
  written_bytes_ += current_.data().size();
  if (written_bytes_ == snapshot_->size()) return WriteLast();
  writer_.Write(current_, written_.Start(shared_from_this()));
}

void SaveCall::WriteLast() {
  writer_.WriteAndFinish(current_, grpc::WriteOptions(), grpc::Status::OK,
                         finished_.Start(shared_from_this()));
}

void SaveCall::OnWritten(bool ok) {
  if (!ok) gone_ = true;
  if (!gone_) WriteNext();
}

void SaveCall::OnDone(bool) {
  if (context_.IsCancelled()) gone_ = true;
}

void SaveCall::Finish(const absl::Status& status) {
  writer_.Finish(ToGrpc(status), finished_.Start(shared_from_this()));
}

}  // namespace luna::rpc
