// A call with one answer, on the event loop like every other: one small machinery instead of two,
// and no thread pool of gRPC's whose size nobody chose.
#ifndef LUNA_SERVER_RPC_UNARY_CALL_H_
#define LUNA_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "core/engine/engine.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/host.h"
#include "server/rpc/peer.h"
#include "server/rpc/serving.h"
#include "server/rpc/status.h"

namespace luna::rpc {

// The way to answer one call: once, from any thread. Copies are the same way.
template <typename Response>
class Reply {
 public:
  using Make = std::function<absl::StatusOr<Response>()>;

  explicit Reply(std::function<void(Make)> send) : send_(std::move(send)) {}

  void operator()(absl::StatusOr<Response> response) const {
    send_([response = std::move(response)] { return response; });
  }

  // A callback for the engine, which answers with what `convert` makes of its result. The
  // conversion runs on the writer thread: the engine thread has better things to do.
  template <typename T, typename Convert>
  engine::Engine::Done<T> With(Convert convert) const {
    return [send = send_, convert](absl::StatusOr<T> value) {
      send([value = std::move(value), convert]() -> absl::StatusOr<Response> {
        if (!value.ok()) return value.status();
        return convert(*value);
      });
    };
  }

 private:
  std::function<void(Make)> send_;
};

// One method of a service; lives as long as the server.
template <typename Request, typename Response>
struct UnaryMethod {
  // Asks gRPC for the next call of this method.
  std::function<void(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Response>*,
                     void* tag)>
      next;
  // Writer thread: must not take long. `request` stays until it is answered.
  std::function<void(const Serving&, const Caller&, const Request& request, Reply<Response>)>
      handle;
};

// Owned by its pending operations and by whoever holds its Reply. Writer thread only, except Send.
template <typename Request, typename Response>
class UnaryCall final : public EventLoop::Reader,
                        public std::enable_shared_from_this<UnaryCall<Request, Response>> {
 public:
  using Method = UnaryMethod<Request, Response>;

  UnaryCall(Host* host, const Method* method) : host_(host), method_(method) {}

  static void Listen(Host* host, const Method* method) {
    auto call = std::make_shared<UnaryCall>(host, method);
    method->next(&call->context_, &call->request_, &call->responder_, call->requested_.Start(call));
  }

  void OnReady() override {
    const absl::StatusOr<Response> response = make_();
    make_ = nullptr;
    if (response.ok()) {
      responder_.Finish(*response, grpc::Status::OK, finished_.Start(this->shared_from_this()));
    } else {
      responder_.FinishWithError(ToGrpc(response.status()),
                                 finished_.Start(this->shared_from_this()));
    }
  }

 private:
  void OnRequested(bool ok) {
    if (!ok) return;  // the server shuts down
    ticket_.emplace(&host_->calls());
    Listen(host_, method_);
    const Reply<Response> reply(
        [self = this->shared_from_this()](typename Reply<Response>::Make make) {
          self->Send(std::move(make));
        });
    if (absl::Status loaded = host_->CheckLoaded(); !loaded.ok()) return reply(loaded);
    method_->handle(*host_->serving(), ParsePeer(context_.peer()), request_, reply);
  }

  void OnFinished(bool) {}

  void Send(typename Reply<Response>::Make make) {
    make_ = std::move(make);
    host_->loop().Post(this->shared_from_this());
  }

  Host* const host_;
  const Method* const method_;
  std::optional<LiveCalls::Ticket> ticket_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Response> responder_{&context_};
  typename Reply<Response>::Make make_;
  Operation<UnaryCall> requested_{&UnaryCall::OnRequested};
  Operation<UnaryCall> finished_{&UnaryCall::OnFinished};
};

// Binds a generated Request<Method> of `service` to what answers it, and listens. `method` must
// live as long as the server.
template <typename Service, typename Base, typename Request, typename Response, typename Handler>
std::shared_ptr<void> ServeUnary(
    Host* host, Service* service,
    void (Base::*request_method)(grpc::ServerContext*, Request*,
                                 grpc::ServerAsyncResponseWriter<Response>*, grpc::CompletionQueue*,
                                 grpc::ServerCompletionQueue*, void*),
    Handler handler) {
  auto method = std::make_shared<UnaryMethod<Request, Response>>();
  method->next = [host, service, request_method](grpc::ServerContext* context, Request* request,
                                                 grpc::ServerAsyncResponseWriter<Response>* writer,
                                                 void* tag) {
    grpc::ServerCompletionQueue* queue = host->loop().queue();
    (service->*request_method)(context, request, writer, queue, queue, tag);
  };
  method->handle = std::move(handler);
  UnaryCall<Request, Response>::Listen(host, method.get());
  return method;
}

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_UNARY_CALL_H_
