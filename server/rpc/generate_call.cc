#include "server/rpc/generate_call.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "server/rpc/convert.h"
#include "server/rpc/status.h"

namespace luna::rpc {
namespace {

absl::Status TerminalStatus(const engine::Finished& finished) {
  switch (finished.reason) {
    case engine::FinishReason::kError:
      return finished.error.ok() ? absl::InternalError("the generation failed") : finished.error;
    case engine::FinishReason::kDeadline:
      return absl::DeadlineExceededError("the deadline passed before the answer was complete");
    default:
      return absl::OkStatus();
  }
}

}  // namespace

GenerateCall::GenerateCall(Host* host, v1::InferenceService::AsyncService* service)
    : host_(host), service_(service), generation_(host) {}

void GenerateCall::Listen(Host* host, v1::InferenceService::AsyncService* service) {
  auto call = std::make_shared<GenerateCall>(host, service);
  call->context_.AsyncNotifyWhenDone(call->done_.Start(call));
  grpc::ServerCompletionQueue* queue = host->loop().queue();
  service->RequestGenerate(&call->context_, &call->request_, &call->writer_, queue, queue,
                           call->requested_.Start(call));
}

void GenerateCall::OnRequested(bool ok) {
  if (!ok) {
    // The server shuts down; a call that never began has no end to be told of.
    done_.Drop();
    return;
  }
  ticket_.emplace(&host_->calls());
  Listen(host_, service_);
  generation_.Begin(&request_, context_, shared_from_this());
}

void GenerateCall::OnWritten(bool ok) {
  if (!ok) {
    gone_ = true;
    generation_.Cancel();
  }
  Advance();
}

void GenerateCall::OnDone(bool) {
  if (!context_.IsCancelled()) return;
  gone_ = true;
  generation_.Cancel();
  Advance();
}

void GenerateCall::Advance() {
  if (gone_) {
    events_.clear();
    if (!generation_.over()) generation_.Take();
    return;
  }
  if (written_.pending() || finishing_) return;
  if (events_.empty() && !generation_.over()) {
    engine::TokenStream::Taken& taken = generation_.Take();
    if (taken.rejected) {
      finishing_ = true;
      writer_.Finish(ToGrpc(*taken.rejected), finished_.Start(shared_from_this()));
      return;
    }
    AddEvents(taken);
  }
  if (!events_.empty()) {
    current_ = std::move(events_.front());
    events_.pop_front();
    writer_.Write(current_, written_.Start(shared_from_this()));
  } else if (generation_.over()) {
    finishing_ = true;
    writer_.Finish(grpc::Status::OK, finished_.Start(shared_from_this()));
  }
}

v1::GenerateEvent& GenerateCall::AddEvent() {
  v1::GenerateEvent& event = events_.emplace_back();
  event.set_seq(next_seq_++);
  return event;
}

void GenerateCall::AddEvents(engine::TokenStream::Taken& taken) {
  if (taken.accepted) *AddEvent().mutable_accepted() = ToProto(*taken.accepted);
  if (taken.prompt) *AddEvent().mutable_prompt() = ToProto(*taken.prompt);
  while (taken.delta.tokens.size() > kMaxDeltaTokens) {
    engine::Delta front = SplitFront(taken.delta);
    *AddEvent().mutable_delta() = ToProto(front);
  }
  if (!taken.delta.empty()) *AddEvent().mutable_delta() = ToProto(taken.delta);
  if (!taken.finished) return;
  if (taken.finished->reason == engine::FinishReason::kError) {
    const absl::Status status = TerminalStatus(*taken.finished);
    v1::GenerationError* error = AddEvent().mutable_error();
    error->set_code(static_cast<int>(status.code()));
    error->set_message(std::string(StdView(status.message())));
  } else {
    *AddEvent().mutable_finished() = ToProto(*taken.finished);
  }
}

GenerateUnaryCall::GenerateUnaryCall(Host* host, v1::InferenceService::AsyncService* service)
    : host_(host), service_(service), generation_(host) {}

void GenerateUnaryCall::Listen(Host* host, v1::InferenceService::AsyncService* service) {
  auto call = std::make_shared<GenerateUnaryCall>(host, service);
  call->context_.AsyncNotifyWhenDone(call->done_.Start(call));
  grpc::ServerCompletionQueue* queue = host->loop().queue();
  service->RequestGenerateUnary(&call->context_, &call->request_, &call->responder_, queue, queue,
                                call->requested_.Start(call));
}

void GenerateUnaryCall::OnRequested(bool ok) {
  if (!ok) {
    done_.Drop();
    return;
  }
  ticket_.emplace(&host_->calls());
  Listen(host_, service_);
  generation_.Begin(&request_, context_, shared_from_this());
}

void GenerateUnaryCall::OnDone(bool) {
  if (!context_.IsCancelled()) return;
  gone_ = true;
  generation_.Cancel();
}

void GenerateUnaryCall::OnReady() {
  if (generation_.over()) return;
  engine::TokenStream::Taken& taken = generation_.Take();
  if (gone_) return;
  if (taken.rejected) {
    responder_.FinishWithError(ToGrpc(*taken.rejected), finished_.Start(shared_from_this()));
    return;
  }
  if (taken.accepted) {
    response_.set_generation_id(taken.accepted->generation_id);
    response_.set_seed(taken.accepted->seed);
  }
  Append(taken.delta, response_);
  if (!taken.finished) return;
  if (absl::Status status = TerminalStatus(*taken.finished); !status.ok()) {
    responder_.FinishWithError(ToGrpc(status), finished_.Start(shared_from_this()));
    return;
  }
  *response_.mutable_finished() = ToProto(*taken.finished);
  responder_.Finish(response_, grpc::Status::OK, finished_.Start(shared_from_this()));
}

}  // namespace luna::rpc
