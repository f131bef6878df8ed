// luna.v1.InferenceService over the engine.
#ifndef LUNA_SERVER_RPC_INFERENCE_SERVICE_H_
#define LUNA_SERVER_RPC_INFERENCE_SERVICE_H_

#include <memory>
#include <vector>

#include "luna/v1/inference.grpc.pb.h"
#include "server/rpc/host.h"

namespace luna::rpc {

// Borrows the host. Registered with the server builder, then told to listen once the event loop has
// its queue; lives until the loop has shut down.
class InferenceService {
 public:
  explicit InferenceService(Host* host) : host_(host) {}

  grpc::Service* service() { return &service_; }
  void Listen();

 private:
  Host* const host_;
  v1::InferenceService::AsyncService service_;
  std::vector<std::shared_ptr<void>> methods_;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_INFERENCE_SERVICE_H_
