// A call with one answer, on the event loop like every other: one small machinery instead of two,
// and no thread pool of gRPC's whose size nobody chose.
#ifndef LUNA_SERVER_RPC_UNARY_CALL_H_
#define LUNA_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include <atomic>
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

// A call that waits for its answer.
template <typename Response>
class Asker {
 public:
  using Make = std::function<absl::StatusOr<Response>()>;

  virtual ~Asker() = default;
  // Once, from any thread. `make` runs on the writer thread.
  virtual void Send(Make make) = 0;
  // Nobody waits any more: what has not begun need not be done. Thread-safe.
  virtual bool gone() const = 0;
};

// The way to answer one call: once, from any thread. Copies are the same way.
template <typename Response>
class Reply {
 public:
  explicit Reply(std::shared_ptr<Asker<Response>> asker) : asker_(std::move(asker)) {}

  bool gone() const { return asker_->gone(); }

  void operator()(absl::StatusOr<Response> response) const {
    asker_->Send([response = std::move(response)]() mutable { return std::move(response); });
  }

  // A callback for the engine, which answers with what `convert` makes of its result. The
  // conversion runs on the writer thread: the engine thread has better things to do.
  template <typename T, typename Convert>
  engine::Engine::Done<T> With(Convert convert) const {
    return [asker = asker_, convert](absl::StatusOr<T> value) {
      asker->Send([value = std::move(value), convert]() -> absl::StatusOr<Response> {
        if (!value.ok()) return value.status();
        return convert(*value);
      });
    };
  }

 private:
  std::shared_ptr<Asker<Response>> asker_;
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

// Owned by its pending operations and by whoever holds its Reply. Writer thread only, except what
// an Asker has.
template <typename Request, typename Response>
class UnaryCall final : public EventLoop::Reader,
                        public Asker<Response>,
                        public std::enable_shared_from_this<UnaryCall<Request, Response>> {
 public:
  using Method = UnaryMethod<Request, Response>;

  UnaryCall(Host* host, const Method* method) : host_(host), method_(method) {}

  static void Listen(Host* host, const Method* method) {
    auto call = std::make_shared<UnaryCall>(host, method);
    call->context_.AsyncNotifyWhenDone(call->done_.Start(call));
    method->next(&call->context_, &call->request_, &call->responder_, call->requested_.Start(call));
  }

  bool bulky() const override { return true; }

  void Send(typename Asker<Response>::Make make) override {
    make_ = std::move(make);
    host_->loop().Post(this->shared_from_this());
  }
  bool gone() const override { return gone_.load(std::memory_order_relaxed); }

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
    if (!ok) {  // the server shuts down; a call that never began has no end to be told of
      done_.Drop();
      return;
    }
    ticket_.emplace(&host_->calls());
    Listen(host_, method_);
    const Reply<Response> reply(this->shared_from_this());
    if (absl::Status loaded = host_->CheckLoaded(); !loaded.ok()) return reply(loaded);
    method_->handle(*host_->serving(), ParsePeer(context_.peer()), request_, reply);
  }

  void OnFinished(bool) {}

  void OnDone(bool) {
    if (context_.IsCancelled()) gone_.store(true, std::memory_order_relaxed);
  }

  Host* const host_;
  const Method* const method_;
  std::optional<LiveCalls::Ticket> ticket_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Response> responder_{&context_};
  typename Asker<Response>::Make make_;
  std::atomic<bool> gone_{false};
  Operation<UnaryCall> requested_{&UnaryCall::OnRequested};
  Operation<UnaryCall> finished_{&UnaryCall::OnFinished};
  Operation<UnaryCall> done_{&UnaryCall::OnDone};
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
