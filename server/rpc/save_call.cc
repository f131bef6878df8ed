#include "server/rpc/save_call.h"

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
  const std::string caller = ParsePeer(context_.peer()).name;
  budget_.emplace(&host_->snapshot_bytes(), caller);
  std::string entry;
  if (!request_.name().empty()) {
    LUNA_RETURN_IF_ERROR(host_->CheckKeeper());
    LUNA_ASSIGN_OR_RETURN(entry, state::EntryOf(caller, request_.name()));
  }
  host_->serving()->engine->SaveSession(
      request_.session_id(),
      [self = shared_from_this(), entry](absl::StatusOr<engine::SavedSession> saved) {
        self->OnSaved(entry, std::move(saved));
      });
  return absl::OkStatus();
}

void SaveCall::OnSaved(const std::string& entry, absl::StatusOr<engine::SavedSession> saved) {
  if (!saved.ok() || entry.empty()) return Resolve(std::move(saved));
  host_->serving()->keeper->Save(*std::move(saved), entry,
                                 [self = shared_from_this()](const absl::Status& status) {
                                   if (!status.ok()) return self->Resolve(status);
                                   self->Resolve(engine::SavedSession());
                                 });
}

void SaveCall::Resolve(absl::StatusOr<engine::SavedSession> outcome) {
  outcome_ = std::move(outcome);
  host_->loop().Post(shared_from_this());
}

void SaveCall::OnReady() {
  if (gone_) return;
  if (!outcome_.ok()) return Finish(outcome_.status());
  if (!request_.name().empty()) {
    current_.set_name(request_.name());
    return WriteLast();
  }
  if (absl::Status encoded = Encode(*outcome_); !encoded.ok()) return Finish(encoded);
  outcome_ = engine::SavedSession();
  WriteNext();
}

absl::Status SaveCall::Encode(const engine::SavedSession& session) {
  LUNA_RETURN_IF_ERROR(state::CheckSavedSession(session));
  snapshot_ = state::EncodeSnapshot(session);
  return budget_->Grow(snapshot_.size());
}

void SaveCall::WriteNext() {
  current_.set_data(snapshot_.substr(written_bytes_, kSnapshotChunkBytes));
  written_bytes_ += current_.data().size();
  if (written_bytes_ == snapshot_.size()) return WriteLast();
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
