// A session on its way in: from a client, as bytes, or from the state directory.
#ifndef LUNA_SERVER_RPC_RESTORE_CALL_H_
#define LUNA_SERVER_RPC_RESTORE_CALL_H_

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/engine/saved_session.h"
#include "core/engine/session_info.h"
#include "luna/v1/session.grpc.pb.h"
#include "server/rpc/byte_budget.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/host.h"

namespace luna::rpc {

// From the call to the end of what the client sends: meanwhile it has a part of its caller's
// budget.
inline constexpr absl::Duration kRestorePatience = absl::Minutes(2);

// Reads to the client's end, then decodes on a worker or has the keeper load an entry, then asks
// the engine. What is cut, or whose caller left before its end, changes nothing. Owned by what is
// pending: an operation, a task of a worker, or a callback of the keeper or the engine. Writer
// thread only, but for those.
class RestoreCall final : public EventLoop::Reader,
                          public std::enable_shared_from_this<RestoreCall> {
 public:
  RestoreCall(Host* host, v1::SessionService::AsyncService* service)
      : host_(host), service_(service) {}

  // Asks gRPC for the next call.
  static void Listen(Host* host, v1::SessionService::AsyncService* service);

  void OnReady() override;
  bool bulky() const override { return true; }

 private:
  void OnRequested(bool ok);
  void OnRead(bool ok);
  // The headers of the answer are on their way.
  void OnBegun(bool ok);
  void OnFinished(bool) {}
  void OnAlarm(bool ok);
  void OnDone(bool ok);

  // Adds a chunk to what has come.
  absl::Status Take();
  // All has come.
  absl::Status Load();
  // On a worker, or the keeper's thread. `trusted` as RestoreSpec has it.
  void OnLoaded(absl::StatusOr<engine::SavedSession> saved, bool trusted);
  // On any thread.
  void Resolve(absl::StatusOr<engine::SessionInfo> outcome);
  void Finish(const absl::Status& status);

  Host* const host_;
  v1::SessionService::AsyncService* const service_;
  std::optional<LiveCalls::Ticket> ticket_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReader<v1::Session, v1::SessionChunk> reader_{&context_};
  std::string caller_;
  std::optional<ByteBudget::Share> budget_;
  v1::SessionChunk chunk_;  // being read
  std::string snapshot_;
  std::string name_;  // of the entry; empty: the snapshot was streamed
  grpc::Alarm alarm_;
  bool loading_ = false;  // all has come
  bool finishing_ = false;
  std::optional<absl::StatusOr<engine::SessionInfo>> outcome_;
  std::atomic<bool> gone_{false};  // nobody waits
  Operation<RestoreCall> requested_{&RestoreCall::OnRequested};
  Operation<RestoreCall> read_{&RestoreCall::OnRead};
  Operation<RestoreCall> begun_{&RestoreCall::OnBegun};
  Operation<RestoreCall> alarmed_{&RestoreCall::OnAlarm};
  Operation<RestoreCall> finished_{&RestoreCall::OnFinished};
  Operation<RestoreCall> done_{&RestoreCall::OnDone};
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_RESTORE_CALL_H_
