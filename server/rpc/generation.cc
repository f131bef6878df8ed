#include "server/rpc/generation.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
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

absl::Status CheckContinuations(const v1::GenerateRequest& request) {
  if (!request.has_n() || request.n() == 1) return absl::OkStatus();
  if (request.n() < 1 || request.n() > kMaxContinuations) {
    return InvalidField("n", absl::StrCat(request.n(), " is outside [1, ", kMaxContinuations, "]"));
  }
  if (request.session_id().empty()) return absl::OkStatus();
  return InvalidField("n", absl::StrCat(request.n(),
                                        "; a session goes on in one way: fork it, or leave "
                                        "session_id empty"));
}

void RejectAll(const std::vector<std::shared_ptr<engine::TokenStream>>& streams,
               const absl::Status& status) {
  for (const auto& stream : streams) stream->Reject(status);
}

}  // namespace

void Generation::Begin(const v1::GenerateRequest* request, const grpc::ServerContext& context,
                       std::shared_ptr<EventLoop::Reader> call) {
  arrival_ = absl::Now();
  deadline_ = DeadlineOf(context);
  caller_ = ParsePeer(context.peer()).name;
  session_ = request->session_id();
  EventLoop* const loop = &host_->loop();
  absl::Status status = CheckContinuations(*request);
  Streams streams;
  for (uint32_t i = 0; i < (status.ok() && request->has_n() ? request->n() : 1); ++i) {
    streams.push_back(std::make_shared<engine::TokenStream>([loop, call] { loop->Enqueue(call); }));
    parts_.push_back({.stream = streams.back()});
  }
  if (status.ok()) status = host_->CheckOpen();
  if (!status.ok()) {
    RejectAll(streams, status);
    loop->Kick();
    return;
  }
  ticket_ = std::make_unique<LiveCalls::Ticket>(&host_->generations());
  // `call` keeps this and the request alive. The writer lets go of the parts' own streams as soon
  // as it has taken the end.
  const bool queued =
      host_->workers().Run(caller_, request->ByteSizeLong(), [this, call, request, streams, loop] {
        Prepare(*request, streams);
        loop->Kick();
      });
  if (queued) return;
  RejectAll(streams, Host::WorkersAreBusy("requests wait for being turned into tokens"));
  loop->Kick();
}

void Generation::Prepare(const v1::GenerateRequest& request, const Streams& streams) {
  if (streams.front()->cancel_requested()) {
    return RejectAll(streams, absl::CancelledError("the caller left"));
  }
  const Serving& serving = *host_->serving();
  absl::StatusOr<engine::Request> made = ToRequest(request, serving);
  if (!made.ok()) return RejectAll(streams, made.status());
  made->caller = caller_;
  made->arrival = arrival_;
  made->deadline = deadline_;
  num_input_tokens_ = made->input.tokens.size();
  serving.engine->SubmitMany(*std::move(made), streams);
}

engine::TokenStream::Taken& Generation::Take(size_t index) {
  Part& part = parts_[index];
  part.stream->TakeAll(part.taken);
  if (part.taken.accepted) {
    part.generation_id = part.taken.accepted->generation_id;
    LogStart(part);
  }
  if (part.taken.finished) LogEnd(part);
  if (part.taken.rejected) {
    spdlog::debug("refused caller={} {}", caller_, part.taken.rejected->ToString());
  }
  if (part.taken.finished || part.taken.rejected) {
    part.over = true;
    part.stream.reset();
  }
  return part.taken;
}

void Generation::TakeAll() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!over(i)) Take(i);
  }
}

bool Generation::over() const {
  return std::ranges::all_of(parts_, [](const Part& part) { return part.over; });
}

void Generation::Cancel() {
  for (Part& part : parts_) {
    if (part.stream != nullptr) part.stream->RequestCancel();
  }
}

void Generation::LogStart(const Part& part) const {
  const engine::Accepted& accepted = *part.taken.accepted;
  spdlog::info("start {} session={} caller={} new_tokens={} max_tokens={} queue={}",
               Prefix(part.generation_id), session_.empty() ? "one-off" : Prefix(session_), caller_,
               num_input_tokens_, accepted.stopping.max_tokens, accepted.queue_position);
}

void Generation::LogEnd(const Part& part) const {
  const engine::Finished& finished = *part.taken.finished;
  spdlog::log(finished.error.ok() ? spdlog::level::info : spdlog::level::warn,
              "end {} {} prompt_tokens={} cached={} tokens={} ttft_ms={:.1f} ms={:.1f}{}{}",
              Prefix(part.generation_id), ReasonName(finished.reason), finished.usage.prompt_tokens,
              finished.usage.cached_tokens, finished.usage.completion_tokens,
              finished.usage.ttft_ms, finished.usage.total_ms, finished.error.ok() ? "" : " error=",
              finished.error.ok() ? "" : finished.error.ToString());
}

}  // namespace luna::rpc
