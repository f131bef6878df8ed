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
  // What is answered on the event loop; the rest is answered synchronously, with UNIMPLEMENTED.
  using Base = v1::SessionService;
  using Async = Base::WithAsyncMethod_CreateSession<Base::WithAsyncMethod_GetSession<
      Base::WithAsyncMethod_ListSessions<Base::WithAsyncMethod_UpdateSession<
          Base::WithAsyncMethod_ResetSession<Base::WithAsyncMethod_CloseSession<
              Base::WithAsyncMethod_ForkSession<Base::Service>>>>>>>;

  class Service final : public Async {
   public:
    grpc::Status SaveSession(grpc::ServerContext*, const v1::SaveSessionRequest*,
                             grpc::ServerWriter<v1::SessionChunk>*) override;
    grpc::Status RestoreSession(grpc::ServerContext*, grpc::ServerReader<v1::SessionChunk>*,
                                v1::Session*) override;
  };

  Host* const host_;
  Service service_;
  std::vector<std::shared_ptr<void>> methods_;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_SESSION_SERVICE_H_
