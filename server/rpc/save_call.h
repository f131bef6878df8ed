// A session on its way out: to a client, as bytes, or into the state directory.
#ifndef LUNA_SERVER_RPC_SAVE_CALL_H_
#define LUNA_SERVER_RPC_SAVE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/engine/saved_session.h"
#include "luna/v1/session.grpc.pb.h"
#include "server/rpc/byte_budget.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/host.h"

namespace luna::rpc {

inline constexpr size_t kSnapshotChunkBytes = size_t{512} << 10;

// Asks the engine, then either has the keeper write an entry and answers with one chunk of its
// name, or has a worker encode the session and streams it, one chunk at a time. Owned by what is
// pending: an operation, or a callback of the engine, the keeper or a worker. Writer thread only,
// but for those callbacks.
class SaveCall final : public EventLoop::Reader, public std::enable_shared_from_this<SaveCall> {
 public:
  SaveCall(Host* host, v1::SessionService::AsyncService* service)
      : host_(host), service_(service) {}

  // Asks gRPC for the next call.
  static void Listen(Host* host, v1::SessionService::AsyncService* service);

  void OnReady() override;

 private:
  void OnRequested(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool) {}
  void OnDone(bool ok);

  // Sends the engine for the session.
  absl::Status Begin();
  // On the engine's thread.
  void OnSaved(absl::StatusOr<engine::SavedSession> saved);
  // On a worker.
  absl::StatusOr<std::string> Encode() const;
  // On any thread: the snapshot, empty if it is in the state directory, or why there is none.
  void Resolve(absl::StatusOr<std::string> snapshot);
  void WriteNext();
  void WriteLast();
  void Finish(const absl::Status& status);

  Host* const host_;
  v1::SessionService::AsyncService* const service_;
  std::optional<LiveCalls::Ticket> ticket_;
  grpc::ServerContext context_;
  v1::SaveSessionRequest request_;
  grpc::ServerAsyncWriter<v1::SessionChunk> writer_{&context_};
  std::string caller_;
  std::string entry_;  // of the state directory; empty: the snapshot is streamed
  std::optional<ByteBudget::Share> budget_;
  engine::SavedSession saved_;  // to be encoded
  absl::StatusOr<std::string> snapshot_;
  size_t written_bytes_ = 0;  // of the snapshot
  v1::SessionChunk current_;  // being written
  bool gone_ = false;         // nobody reads
  Operation<SaveCall> requested_{&SaveCall::OnRequested};
  Operation<SaveCall> written_{&SaveCall::OnWritten};
  Operation<SaveCall> finished_{&SaveCall::OnFinished};
  Operation<SaveCall> done_{&SaveCall::OnDone};
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_SAVE_CALL_H_
