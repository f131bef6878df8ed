#include "server/rpc/generation.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/absl_view.h"
#include "core/base/status_details.h"
#include "server/rpc/convert.h"
#include "server/rpc/peer.h"

namespace luna::rpc {
namespace {

// Enough to tell one from another in a log, too little to use it.
std::string_view Prefix(std::string_view secret) { return secret.substr(0, 8); }

std::string_view ReasonName(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "STOP";
    case engine::FinishReason::kLength:
      return "LENGTH";
    case engine::FinishReason::kCancelled:
      return "CANCELLED";
    case engine::FinishReason::kDeadline:
      return "DEADLINE";
    case engine::FinishReason::kError:
      return "ERROR";
  }
  return "?";
}

absl::Time DeadlineOf(const grpc::ServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return absl::FromChrono(deadline);
}

}  // namespace

void Generation::Begin(const v1::GenerateRequest* request, const grpc::ServerContext& context,
                       std::shared_ptr<EventLoop::Reader> call) {
  arrival_ = absl::Now();
  deadline_ = DeadlineOf(context);
  caller_ = ParsePeer(context.peer()).name;
  session_ = request->session_id();
  EventLoop* const loop = &host_->loop();
  stream_ = std::make_shared<engine::TokenStream>([loop, call] { loop->Enqueue(call); });
  if (absl::Status open = host_->CheckOpen(); !open.ok()) {
    stream_->Reject(std::move(open));
    loop->Kick();
    return;
  }
  ticket_ = std::make_unique<LiveCalls::Ticket>(&host_->generations());
  // `call` keeps this and the request alive.
  const bool queued =
      host_->workers().Run(caller_, request->ByteSizeLong(), [this, call, request, loop] {
        Prepare(*request);
        loop->Kick();
      });
  if (queued) return;
  stream_->Reject(WithRetryAfter(
      absl::ResourceExhaustedError("too many requests wait for being turned into tokens"),
      absl::Seconds(1)));
  loop->Kick();
}

void Generation::Prepare(const v1::GenerateRequest& request) {
  // The writer lets its own reference go as soon as it has taken the end.
  const std::shared_ptr<engine::TokenStream> stream = stream_;
  if (stream->cancel_requested()) {
    stream->Reject(absl::CancelledError("the caller left"));
    return;
  }
  const Serving& serving = *host_->serving();
  absl::StatusOr<engine::Request> made = ToRequest(request, serving);
  if (!made.ok()) {
    stream->Reject(made.status());
    return;
  }
  made->caller = caller_;
  made->arrival = arrival_;
  made->deadline = deadline_;
  num_input_tokens_ = made->input.tokens.size();
  serving.engine->Submit(*std::move(made), stream);
}

engine::TokenStream::Taken& Generation::Take() {
  stream_->TakeAll(taken_);
  if (taken_.accepted) {
    generation_id_ = taken_.accepted->generation_id;
    LogStart(*taken_.accepted);
  }
  if (taken_.finished) LogEnd(*taken_.finished);
  if (taken_.rejected) {
    spdlog::debug("refused caller={} {}", caller_, taken_.rejected->ToString());
  }
  if (taken_.finished || taken_.rejected) {
    over_ = true;
    stream_.reset();
  }
  return taken_;
}

void Generation::Cancel() {
  if (stream_ != nullptr) stream_->RequestCancel();
}

void Generation::LogStart(const engine::Accepted& accepted) const {
  spdlog::info("start {} session={} caller={} new_tokens={} max_tokens={} queue={}",
               Prefix(generation_id_), session_.empty() ? "one-off" : Prefix(session_), caller_,
               num_input_tokens_, accepted.stopping.max_tokens, accepted.queue_position);
}

void Generation::LogEnd(const engine::Finished& finished) const {
  spdlog::info(
      "end {} {} prompt_tokens={} cached={} tokens={} ttft_ms={:.1f} ms={:.1f}{}{}",
      Prefix(generation_id_), ReasonName(finished.reason), finished.usage.prompt_tokens,
      finished.usage.cached_tokens, finished.usage.completion_tokens, finished.usage.ttft_ms,
      finished.usage.total_ms,
      finished.error.ok() ? "" : " error=", finished.error.ok() ? "" : finished.error.ToString());
}

}  // namespace luna::rpc
