// luna.v1.MonitorService: snapshots of the engine, without anybody's words.
#ifndef LUNA_SERVER_RPC_MONITOR_SERVICE_H_
#define LUNA_SERVER_RPC_MONITOR_SERVICE_H_

#include <memory>
#include <vector>

#include "luna/v1/monitor.grpc.pb.h"
#include "server/rpc/host.h"
#include "server/rpc/snapshot_source.h"
#include "server/rpc/watch_call.h"

namespace luna::rpc {

// Borrows the host; see InferenceService for its life.
class MonitorService {
 public:
  explicit MonitorService(Host* host) : host_(host), snapshots_(host) {}

  grpc::Service* service() { return &service_; }
  void Listen();

  // Ends every WatchMemory. Writer thread.
  void StopWatches();

 private:
  using Base = v1::MonitorService;
  using Async = Base::WithAsyncMethod_GetPool<Base::WithAsyncMethod_GetSessionMemory<
      Base::WithAsyncMethod_WatchMemory<Base::WithAsyncMethod_GetLoad<Base::Service>>>>;

  class Service final : public Async {
   public:
    grpc::Status EstimateCapacity(grpc::ServerContext*, const v1::EstimateCapacityRequest*,
                                  v1::EstimateCapacityResponse*) override;
  };

  Host* const host_;
  Service service_;
  std::vector<std::shared_ptr<void>> methods_;
  SnapshotSource snapshots_;
  WatchCall::Method watch_;
  std::vector<std::weak_ptr<WatchCall>> watches_;  // writer thread only
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_MONITOR_SERVICE_H_
