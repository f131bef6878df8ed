// One asynchronous call each, on an EventLoop: a stream that is read event by event, and a unary
// call. They keep themselves alive until their end has been told.
#ifndef LUNA_CLIENT_LOAD_ASYNC_CALL_H_
#define LUNA_CLIENT_LOAD_ASYNC_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/load/event_loop.h"
#include "client/status.h"

namespace luna::load {

// The loop's thread only.
template <typename Event>
class ServerStream : public std::enable_shared_from_this<ServerStream<Event>> {
 public:
  using Reader = grpc::ClientAsyncReader<Event>;
  // Makes the call, for example with stub.PrepareAsyncGenerate(context, request, queue).
  using Prepare =
      std::function<std::unique_ptr<Reader>(grpc::ClientContext*, grpc::CompletionQueue*)>;
  // How long to wait before the next event is read; zero for a reader that keeps up.
  using OnEvent = std::function<absl::Duration(const Event&)>;
  // Once, after the last event.
  using OnEnd = std::function<void(absl::Status)>;

  static std::shared_ptr<ServerStream> Start(EventLoop& loop, const Prepare& prepare,
                                             OnEvent on_event, OnEnd on_end) {
    auto stream = std::shared_ptr<ServerStream>(
        new ServerStream(loop, std::move(on_event), std::move(on_end)));
    stream->reader_ = prepare(&stream->context_, loop.queue());
    stream->reader_->StartCall(
        loop.Tag([stream](bool ok) { ok ? stream->Read() : stream->End(); }));
    return stream;
  }

  // Its end comes through OnEnd as ever, with CANCELLED.
  void Cancel() {
    context_.TryCancel();
    Resume();
  }

 private:
  ServerStream(EventLoop& loop, OnEvent on_event, OnEnd on_end)
      : loop_(loop), on_event_(std::move(on_event)), on_end_(std::move(on_end)) {}

  void Read() {
    auto self = this->shared_from_this();
    reader_->Read(&event_, loop_.Tag([self](bool ok) { ok ? self->Handle() : self->End(); }));
  }

  void Handle() {
    const absl::Duration pause = on_event_(event_);
    if (pause <= absl::ZeroDuration()) return Read();
    paused_ = true;
    auto self = this->shared_from_this();
    loop_.After(pause, [self] { self->Resume(); });
  }

  // By the pause's timer, or earlier by Cancel: whichever comes first.
  void Resume() {
    if (!std::exchange(paused_, false)) return;
    Read();
  }

  void End() {
    auto self = this->shared_from_this();
    reader_->Finish(&status_,
                    loop_.Tag([self](bool) { self->on_end_(client::FromGrpc(self->status_)); }));
  }

  EventLoop& loop_;
  OnEvent on_event_;
  OnEnd on_end_;
  grpc::ClientContext context_;
  std::unique_ptr<Reader> reader_;
  Event event_;
  grpc::Status status_;
  bool paused_ = false;
};

// `prepare` makes the call, for example with stub.PrepareAsyncGetModel(context, request, queue);
// `on_done` gets its end, DEADLINE_EXCEEDED after `timeout` at the latest.
template <typename Response>
void CallUnary(EventLoop& loop,
               const std::function<std::unique_ptr<grpc::ClientAsyncResponseReader<Response>>(
                   grpc::ClientContext*, grpc::CompletionQueue*)>& prepare,
               std::function<void(absl::Status, const Response&)> on_done,
               absl::Duration timeout = absl::Seconds(30)) {
  struct Call {
    grpc::ClientContext context;
    Response response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
  };
  auto call = std::make_shared<Call>();
  call->context.set_deadline(std::chrono::system_clock::now() +
                             absl::ToChronoMilliseconds(timeout));
  call->reader = prepare(&call->context, loop.queue());
  call->reader->StartCall();
  call->reader->Finish(&call->response, &call->status,
                       loop.Tag([call, on_done = std::move(on_done)](bool) {
                         on_done(client::FromGrpc(call->status), call->response);
                       }));
}

}  // namespace luna::load

#endif  // LUNA_CLIENT_LOAD_ASYNC_CALL_H_
