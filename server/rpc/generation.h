// One request as the server's side of a call sees it, whether the answer is streamed or joined:
// prepared on a worker, submitted to the engine, its continuations read and logged.
#ifndef LUNA_SERVER_RPC_GENERATION_H_
#define LUNA_SERVER_RPC_GENERATION_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/token_stream.h"
#include "luna/v1/inference.pb.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/host.h"

namespace luna::rpc {

// Part of a call; writer thread only.
class Generation {
 public:
  explicit Generation(Host* host) : host_(host) {}

  // Sends `request` on its way. Whatever comes of it, refusals included, comes through Take; where
  // the first continuation is refused all are. `call`, of which this and `request` are parts, is
  // told each time there is something.
  void Begin(const v1::GenerateRequest* request, const grpc::ServerContext& context,
             std::shared_ptr<EventLoop::Reader> call);

  size_t num_continuations() const { return parts_.size(); }
  // What has come of one since the last Take. Not to be called once it is over.
  engine::TokenStream::Taken& Take(size_t index);
  // Nobody reads any more: the turn is discarded.
  void Cancel();
  // Takes what has come of all, for nobody.
  void TakeAll();

  // The end (a refusal, or Finished) of one, or of all, has been taken.
  bool over(size_t index) const { return parts_[index].over; }
  bool over() const;

 private:
  struct Part {
    // Refers to the call, which refers to it: let go when the end has been taken.
    std::shared_ptr<engine::TokenStream> stream;
    engine::TokenStream::Taken taken = {};
    std::string generation_id = {};
    bool over = false;
  };
  using Streams = std::vector<std::shared_ptr<engine::TokenStream>>;

  void Prepare(const v1::GenerateRequest& request, const Streams& streams);
  void LogStart(const Part& part) const;
  void LogEnd(const Part& part) const;

  Host* const host_;
  std::unique_ptr<LiveCalls::Ticket> ticket_;
  std::vector<Part> parts_;
  std::string caller_;
  std::string session_;
  absl::Time arrival_;
  absl::Time deadline_;
  size_t num_input_tokens_ = 0;  // written by the worker, before it submits
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_GENERATION_H_
