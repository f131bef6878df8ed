#include "core/engine/token_stream.h"

#include <utility>

#include "core/base/check.h"

namespace luna::engine {

bool TokenStream::MarkReady() {
  const bool wake_is_due = !notified_ && wake_ != nullptr;
  notified_ = true;
  return wake_is_due;
}

// `wake_` is foreign code: it is called after the lock is gone.
template <typename Change>
void TokenStream::Write(Change change) {
  bool wake_is_due = false;
  {
    std::lock_guard lock(mutex_);
    change();
    wake_is_due = MarkReady();
  }
  if (wake_is_due) wake_();
}

void TokenStream::Reserve(size_t tokens, size_t text_bytes) {
  std::lock_guard lock(mutex_);
  ready_.delta.tokens.reserve(tokens);
  ready_.delta.text.reserve(text_bytes);
}

void TokenStream::Accept(Accepted accepted) {
  Write([&] { ready_.accepted = std::move(accepted); });
}

void TokenStream::Reject(absl::Status status) {
  LUNA_CHECK(!status.ok());
  Write([&] { ready_.rejected = std::move(status); });
}

void TokenStream::PromptComputed(PromptDone prompt) {
  Write([&] { ready_.prompt = prompt; });
}

void TokenStream::Append(std::string_view text, TokenId token, const TokenLogprobs* logprobs) {
  Write([&] {
    ready_.delta.text.append(text);
    ready_.delta.tokens.push_back(token);
    if (logprobs != nullptr) ready_.delta.logprobs.push_back(*logprobs);
  });
}

void TokenStream::Finish(std::string_view tail, Finished finished) {
  Write([&] {
    ready_.delta.text.append(tail);
    ready_.finished = std::move(finished);
  });
}

// Copies tokens and text, so that the writing side keeps its buffers and never allocates.
void TokenStream::TakeAll(Taken& out) {
  std::lock_guard lock(mutex_);
  out.accepted = std::exchange(ready_.accepted, std::nullopt);
  out.rejected = std::exchange(ready_.rejected, std::nullopt);
  out.prompt = std::exchange(ready_.prompt, std::nullopt);
  out.finished = std::exchange(ready_.finished, std::nullopt);
  out.delta.text.assign(ready_.delta.text);
  out.delta.tokens.assign(ready_.delta.tokens.begin(), ready_.delta.tokens.end());
  out.delta.logprobs = std::move(ready_.delta.logprobs);
  ready_.delta.text.clear();
  ready_.delta.tokens.clear();
  ready_.delta.logprobs.clear();
  notified_ = false;
}

}  // namespace luna::engine
