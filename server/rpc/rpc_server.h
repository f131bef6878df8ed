// The gRPC server: all services on one address, with health, reflection and an orderly end.
#ifndef LUNA_SERVER_RPC_RPC_SERVER_H_
#define LUNA_SERVER_RPC_RPC_SERVER_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/host.h"
#include "server/rpc/inference_service.h"
#include "server/rpc/load_log.h"
#include "server/rpc/monitor_service.h"
#include "server/rpc/serving.h"
#include "server/rpc/session_service.h"

namespace luna::rpc {

// Of one message. A longer request is RESOURCE_EXHAUSTED before anybody looks at it.
inline constexpr int kMaxReceiveBytes = 4 * 1024 * 1024;
inline constexpr int kMaxSendBytes = 64 * 1024 * 1024;

// The life of one: Start (health NOT_SERVING, calls UNAVAILABLE) -> Serve -> BeginDrain ->
// WaitUntilDrained -> Stop. Thread-safe but for Serve and Stop, which are called once.
class RpcServer {
 public:
  // Listens on `address`, "host:port" (port 0: a free one). UNAVAILABLE names the
  // address if it is taken or not this machine's.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& address);
  // Stops.
  ~RpcServer();

  int port() const { return port_; }

  // For the engine: called at the end of a tick in which a stream got something.
  void OnPublished() { host_.loop().Kick(); }

  // From now on calls are answered; health SERVING. `serving` and its engine outlive Stop.
  void Serve(const Serving* serving);

  // New generations and sessions are UNAVAILABLE; health NOT_SERVING. Live ones go on. Idempotent.
  void BeginDrain();
  // False if generations are still live at `deadline`.
  bool WaitUntilDrained(absl::Time deadline) { return host_.generations().WaitUntilNone(deadline); }

  // Ends every call and joins the threads. Idempotent. Stop the engine first, so that what still
  // runs gets its end; the engine object outlives this.
  void Stop();

 private:
  explicit RpcServer(std::unique_ptr<grpc::ServerCompletionQueue> queue);
  void SetServing(bool serving);

  Host host_;
  InferenceService inference_{&host_};
  SessionService sessions_{&host_};
  MonitorService monitor_{&host_};
  AdminService admin_{&host_, [this] { BeginDrain(); }};
  std::shared_ptr<LoadLog> load_log_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  bool stopped_ = false;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_RPC_SERVER_H_
