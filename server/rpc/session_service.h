// luna.v1.SessionService over the engine.
#ifndef LUNA_SERVER_RPC_SESSION_SERVICE_H_
#define LUNA_SERVER_RPC_SESSION_SERVICE_H_

#include <memory>
#include <vector>

#include "luna/v1/session.grpc.pb.h"
#include "server/rpc/host.h"

namespace luna::rpc {

// Borrows the host; see InferenceService for its life.
class SessionService {
 public:
  explicit SessionService(Host* host) : host_(host) {}

  grpc::Service* service() { return &service_; }
  void Listen();

 private:
  using Service = v1::SessionService::AsyncService;

  Host* const host_;
  Service service_;
  std::vector<std::shared_ptr<void>> methods_;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_SESSION_SERVICE_H_
