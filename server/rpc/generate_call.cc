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
    generation_.TakeAll();
    return;
  }
  if (written_.pending() || finishing_) return;
  for (uint32_t i = 0; i < generation_.num_continuations() && events_.empty(); ++i) {
    if (generation_.over(i)) continue;
    engine::TokenStream::Taken& taken = generation_.Take(i);
    if (taken.rejected && i == 0) {
      finishing_ = true;
      generation_.TakeAll();
      writer_.Finish(ToGrpc(*taken.rejected), finished_.Start(shared_from_this()));
      return;
    }
    AddEvents(taken, i);
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

v1::GenerateEvent& GenerateCall::AddEvent(uint32_t index) {
  v1::GenerateEvent& event = events_.emplace_back();
  event.set_seq(next_seq_++);
  event.set_index(index);
  return event;
}

void GenerateCall::AddError(const absl::Status& status, uint32_t index) {
  v1::GenerationError* error = AddEvent(index).mutable_error();
  error->set_code(static_cast<int>(status.code()));
  error->set_message(std::string(StdView(status.message())));
}

void GenerateCall::AddEvents(engine::TokenStream::Taken& taken, uint32_t index) {
  if (taken.rejected) return AddError(*taken.rejected, index);
  if (taken.accepted) *AddEvent(index).mutable_accepted() = ToProto(*taken.accepted);
  if (taken.prompt) *AddEvent(index).mutable_prompt() = ToProto(*taken.prompt);
  while (taken.delta.tokens.size() > kMaxDeltaTokens) {
    engine::Delta front = SplitFront(taken.delta);
    *AddEvent(index).mutable_delta() = ToProto(front);
  }
  if (!taken.delta.empty()) *AddEvent(index).mutable_delta() = ToProto(taken.delta);
  if (!taken.finished) return;
  if (taken.finished->reason == engine::FinishReason::kError) {
    AddError(TerminalStatus(*taken.finished), index);
  } else {
    *AddEvent(index).mutable_finished() = ToProto(*taken.finished);
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
  if (gone_ || finishing_) return generation_.TakeAll();
  for (size_t i = 0; i < generation_.num_continuations(); ++i) {
    if (generation_.over(i)) continue;
    while (response_.others_size() < static_cast<int>(i)) response_.add_others();
    v1::GenerateResponse& response =
        i == 0 ? response_ : *response_.mutable_others(static_cast<int>(i) - 1);
    const absl::Status status = Add(generation_.Take(i), response);
    if (status.ok()) continue;
    finishing_ = true;
    generation_.Cancel();  // the others, whose answers have no place to go
    responder_.FinishWithError(ToGrpc(status), finished_.Start(shared_from_this()));
    return generation_.TakeAll();
  }
  if (!generation_.over()) return;
  finishing_ = true;
  responder_.Finish(response_, grpc::Status::OK, finished_.Start(shared_from_this()));
}

absl::Status GenerateUnaryCall::Add(const engine::TokenStream::Taken& taken,
                                    v1::GenerateResponse& response) {
  if (taken.rejected) return *taken.rejected;
  if (taken.accepted) {
    response.set_generation_id(taken.accepted->generation_id);
    response.set_seed(taken.accepted->seed);
  }
  Append(taken.delta, response);
  if (!taken.finished) return absl::OkStatus();
  if (absl::Status status = TerminalStatus(*taken.finished); !status.ok()) return status;
  *response.mutable_finished() = ToProto(*taken.finished);
  return absl::OkStatus();
}

}  // namespace luna::rpc
