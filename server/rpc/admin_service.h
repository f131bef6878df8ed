// luna.v1.AdminService, for callers on this machine.
#ifndef LUNA_SERVER_RPC_ADMIN_SERVICE_H_
#define LUNA_SERVER_RPC_ADMIN_SERVICE_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "luna/v1/admin.grpc.pb.h"
#include "server/rpc/host.h"

namespace luna::rpc {

// Borrows the host; see InferenceService for its life. `begin_drain` makes the server refuse what
// is new.
class AdminService {
 public:
  AdminService(Host* host, std::function<void()> begin_drain)
      : host_(host), begin_drain_(std::move(begin_drain)) {}

  grpc::Service* service() { return &service_; }
  void Listen();

 private:
  using Base = v1::AdminService;
  using Service = Base::WithAsyncMethod_Drain<Base::WithAsyncMethod_CheckInvariants<
      Base::WithAsyncMethod_EvictSession<Base::WithAsyncMethod_SetQuota<Base::Service>>>>;

  Host* const host_;
  const std::function<void()> begin_drain_;
  Service service_;
  std::vector<std::shared_ptr<void>> methods_;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_ADMIN_SERVICE_H_
