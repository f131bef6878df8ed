// One generation as the server's side of a call sees it, whether the answer is streamed or joined:
// prepared on a worker, submitted to the engine, read, logged.
#ifndef LUNA_SERVER_RPC_GENERATION_H_
#define LUNA_SERVER_RPC_GENERATION_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>
#include <string>

#include "core/engine/token_stream.h"
#include "luna/v1/inference.pb.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/host.h"

namespace luna::rpc {

// Part of a call; writer thread only.
class Generation {
 public:
  explicit Generation(Host* host) : host_(host) {}

  // Sends `request` on its way. Whatever comes of it, refusals included, comes through Take;
  // `call`, of which this and `request` are parts, is told each time there is something.
  void Begin(const v1::GenerateRequest* request, const grpc::ServerContext& context,
             std::shared_ptr<EventLoop::Reader> call);

  // What has come since the last Take. Not to be called once over().
  engine::TokenStream::Taken& Take();

  // Nobody reads any more: the turn is discarded.
  void Cancel();

  // The end (a refusal, or Finished) has been taken.
  bool over() const { return over_; }

 private:
  void Prepare(const v1::GenerateRequest& request);
  void LogStart(const engine::Accepted& accepted) const;
  void LogEnd(const engine::Finished& finished) const;

  Host* const host_;
  std::unique_ptr<LiveCalls::Ticket> ticket_;
  // Refers to the call, which refers to it: let go when the end has been taken.
  std::shared_ptr<engine::TokenStream> stream_;
  engine::TokenStream::Taken taken_;
  std::string caller_;
  std::string session_;
  absl::Time arrival_;
  absl::Time deadline_;
  std::string generation_id_;
  size_t num_input_tokens_ = 0;  // written by the worker, before it submits
  bool over_ = false;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_GENERATION_H_
