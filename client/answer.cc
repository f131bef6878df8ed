#include "client/answer.h"

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace luna::client {

absl::Status Answer::Add(const v1::GenerateEvent& event) {
  if (event.seq() != next_seq_) {
    return absl::DataLossError(
        absl::StrCat("event ", event.seq(), " arrived where ", next_seq_, " was due"));
  }
  if (has_finished) {
    return absl::DataLossError(absl::StrCat("event ", event.seq(), " arrived after the end"));
  }
  ++next_seq_;
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

}  // namespace luna::client
