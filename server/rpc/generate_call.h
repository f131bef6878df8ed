// The two calls that answer a GenerateRequest: as a stream of events, and joined.
#ifndef LUNA_SERVER_RPC_GENERATE_CALL_H_
#define LUNA_SERVER_RPC_GENERATE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "luna/v1/inference.grpc.pb.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/generation.h"
#include "server/rpc/host.h"

namespace luna::rpc {

// Requested -> Begin -> any number of writes, one at a time -> finished. What the engine publishes
// while a write is on its way waits in the token stream and leaves as one message: a slow reader
// gets fewer, longer messages and holds up nobody. Owned by its pending operations and by its token
// stream. Writer thread only.
class GenerateCall final : public EventLoop::Reader,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  GenerateCall(Host* host, v1::InferenceService::AsyncService* service);

  // Asks gRPC for the next call.
  static void Listen(Host* host, v1::InferenceService::AsyncService* service);

  void OnReady() override { Advance(); }

 private:
  void OnRequested(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool) {}
  // The call is over for gRPC: it finished, or the client left or its deadline passed.
  void OnDone(bool ok);

  // Starts the next write or the end, unless a write is on its way.
  void Advance();
  // Turns what was taken of a continuation into events.
  void AddEvents(engine::TokenStream::Taken& taken, uint32_t index);
  v1::GenerateEvent& AddEvent(uint32_t index);
  void AddError(const absl::Status& status, uint32_t index);

  Host* const host_;
  v1::InferenceService::AsyncService* const service_;
  std::optional<LiveCalls::Ticket> ticket_;
  grpc::ServerContext context_;
  v1::GenerateRequest request_;
  grpc::ServerAsyncWriter<v1::GenerateEvent> writer_{&context_};
  Generation generation_;
  std::deque<v1::GenerateEvent> events_;  // taken from the stream, not yet written
  v1::GenerateEvent current_;             // being written
  uint64_t next_seq_ = 0;
  bool finishing_ = false;
  bool gone_ = false;  // nobody reads
  Operation<GenerateCall> requested_{&GenerateCall::OnRequested};
  Operation<GenerateCall> written_{&GenerateCall::OnWritten};
  Operation<GenerateCall> finished_{&GenerateCall::OnFinished};
  Operation<GenerateCall> done_{&GenerateCall::OnDone};
};

// Owned by its pending operations and by its token stream. Writer thread only.
class GenerateUnaryCall final : public EventLoop::Reader,
                                public std::enable_shared_from_this<GenerateUnaryCall> {
 public:
  GenerateUnaryCall(Host* host, v1::InferenceService::AsyncService* service);

  static void Listen(Host* host, v1::InferenceService::AsyncService* service);

  void OnReady() override;

 private:
  void OnRequested(bool ok);
  void OnFinished(bool) {}
  void OnDone(bool ok);
  // Adds what was taken of a continuation to its answer; not OK if it failed.
  absl::Status Add(const engine::TokenStream::Taken& taken, v1::GenerateResponse& response);

  Host* const host_;
  v1::InferenceService::AsyncService* const service_;
  std::optional<LiveCalls::Ticket> ticket_;
  grpc::ServerContext context_;
  v1::GenerateRequest request_;
  grpc::ServerAsyncResponseWriter<v1::GenerateResponse> responder_{&context_};
  Generation generation_;
  v1::GenerateResponse response_;
  bool finishing_ = false;
  bool gone_ = false;
  Operation<GenerateUnaryCall> requested_{&GenerateUnaryCall::OnRequested};
  Operation<GenerateUnaryCall> finished_{&GenerateUnaryCall::OnFinished};
  Operation<GenerateUnaryCall> done_{&GenerateUnaryCall::OnDone};
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_GENERATE_CALL_H_
