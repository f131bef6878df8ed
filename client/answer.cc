#include "client/answer.h"

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::client {
namespace {

// Counts `next` on.
absl::Status CheckOrder(const v1::GenerateEvent& event, bool ended, uint64_t& next) {
  if (event.seq() != next) {
    return absl::DataLossError(
        absl::StrCat("event ", event.seq(), " arrived where ", next, " was due"));
  }
  if (ended) {
    return absl::DataLossError(absl::StrCat("event ", event.seq(), " arrived after the end"));
  }
  ++next;
  return absl::OkStatus();
}

}  // namespace

absl::Status Answer::Add(const v1::GenerateEvent& event) {
  LUNA_RETURN_IF_ERROR(CheckOrder(event, has_finished, next_seq_));
  return Take(event);
}

absl::Status Answer::Take(const v1::GenerateEvent& event) {
  switch (event.event_case()) {
    case v1::GenerateEvent::kAccepted:
      accepted = event.accepted();
      has_accepted = true;
      break;
    case v1::GenerateEvent::kPrompt:
      prompt = event.prompt();
      break;
    case v1::GenerateEvent::kDelta:
      text += event.delta().text();
      token_ids.insert(token_ids.end(), event.delta().token_ids().begin(),
                       event.delta().token_ids().end());
      logprobs.insert(logprobs.end(), event.delta().logprobs().begin(),
                      event.delta().logprobs().end());
      break;
    case v1::GenerateEvent::kFinished:
      finished = event.finished();
      has_finished = true;
      break;
    case v1::GenerateEvent::kError:
      return absl::Status(static_cast<absl::StatusCode>(event.error().code()),
                          AbslView(event.error().message()));
    case v1::GenerateEvent::EVENT_NOT_SET:
      break;  // a kind of event that is newer than this client
  }
  return absl::OkStatus();
}

absl::Status Answers::Add(const v1::GenerateEvent& event) {
  if (event.index() >= continuations_.size()) {
    return absl::DataLossError(absl::StrCat("event ", event.seq(), " has index ", event.index(),
                                            "; n is ", continuations_.size()));
  }
  Continuation& continuation = continuations_[event.index()];
  LUNA_RETURN_IF_ERROR(CheckOrder(event, continuation.ended, next_seq_));
  continuation.status = continuation.answer.Take(event);
  continuation.ended = continuation.answer.has_finished || event.has_error();
  return absl::OkStatus();
}

absl::Status Answers::AllEnded() const {
  for (size_t i = 0; i < continuations_.size(); ++i) {
    if (continuations_[i].ended) continue;
    const std::string which = size() == 1 ? "" : absl::StrCat(" of index ", i);
    return absl::DataLossError(absl::StrCat("the stream ended without a finish", which));
  }
  return absl::OkStatus();
}

}  // namespace luna::client
