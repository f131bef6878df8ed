// Under load, one line every few seconds: how many run and wait, how fast, how full the pool is.
#ifndef LUNA_SERVER_RPC_LOAD_LOG_H_
#define LUNA_SERVER_RPC_LOAD_LOG_H_

#include <grpcpp/alarm.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/engine/snapshot.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/host.h"

namespace luna::rpc {

inline constexpr absl::Duration kLoadLogInterval = absl::Seconds(5);

// Writer thread only.
class LoadLog final : public EventLoop::Reader, public std::enable_shared_from_this<LoadLog> {
 public:
  explicit LoadLog(Host* host) : host_(host) {}

  // The model is loaded. Once.
  void Start();
  void Stop();

  void OnReady() override;

 private:
  void OnAlarm(bool ok);

  void WaitForNext();

  Host* const host_;
  std::optional<LiveCalls::Ticket> ticket_;  // from Start until nothing is pending after Stop
  grpc::Alarm alarm_;
  absl::StatusOr<engine::Snapshot> snapshot_;  // written by the engine thread while it is asked for
  uint64_t last_total_tokens_ = 0;
  bool stopped_ = false;
  Operation<LoadLog> alarmed_{&LoadLog::OnAlarm};
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_LOAD_LOG_H_
