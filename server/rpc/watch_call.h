// One watcher of the memory: a snapshot at once, then one per interval.
#ifndef LUNA_SERVER_RPC_WATCH_CALL_H_
#define LUNA_SERVER_RPC_WATCH_CALL_H_

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/engine/snapshot.h"
#include "luna/v1/monitor.grpc.pb.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/host.h"
#include "server/rpc/snapshot_source.h"

namespace luna::rpc {

inline constexpr absl::Duration kDefaultWatchInterval = absl::Seconds(1);
inline constexpr absl::Duration kMinWatchInterval = absl::Milliseconds(50);

// Asks for a snapshot, writes it, waits, again; the next is asked for only after the last was
// written, so a reader that does not read costs nothing. Owned by what is pending. Writer thread
// only.
class WatchCall final : public SnapshotSource::Taker,
                        public std::enable_shared_from_this<WatchCall> {
 public:
  // How the next call is asked for, and who is told of a call that began.
  struct Method {
    std::function<void(grpc::ServerContext*, v1::WatchMemoryRequest*,
                       grpc::ServerAsyncWriter<v1::MemorySnapshot>*, void* tag)>
        next;
    std::function<void(std::shared_ptr<WatchCall>)> began;
    SnapshotSource* snapshots;
  };

  WatchCall(Host* host, const Method* method) : host_(host), method_(method) {}

  static void Listen(Host* host, const Method* method);

  void OnSnapshot(const absl::StatusOr<engine::Snapshot>& snapshot) override;

  // The server shuts down: ends with UNAVAILABLE.
  void Stop();

 private:
  void OnRequested(bool ok);
  void OnWritten(bool ok);
  void OnAlarm(bool ok);
  void OnFinished(bool) {}
  void OnDone(bool ok);

  void AskForSnapshot();
  void WaitForNext();
  void Finish(const absl::Status& status);

  Host* const host_;
  const Method* const method_;
  std::optional<LiveCalls::Ticket> ticket_;
  grpc::ServerContext context_;
  v1::WatchMemoryRequest request_;
  grpc::ServerAsyncWriter<v1::MemorySnapshot> writer_{&context_};
  grpc::Alarm alarm_;
  std::string caller_;
  absl::Duration interval_;
  gpr_timespec due_;            // of the next snapshot
  v1::MemorySnapshot current_;  // being written
  bool gone_ = false;
  bool stopping_ = false;
  bool finishing_ = false;
  Operation<WatchCall> requested_{&WatchCall::OnRequested};
  Operation<WatchCall> written_{&WatchCall::OnWritten};
  Operation<WatchCall> alarmed_{&WatchCall::OnAlarm};
  Operation<WatchCall> finished_{&WatchCall::OnFinished};
  Operation<WatchCall> done_{&WatchCall::OnDone};
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_WATCH_CALL_H_
