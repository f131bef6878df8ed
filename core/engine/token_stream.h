// The mailbox from the engine to the one reader of a generation.
#ifndef LUNA_CORE_ENGINE_TOKEN_STREAM_H_
#define LUNA_CORE_ENGINE_TOKEN_STREAM_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/ids.h"
#include "core/sample/params.h"
#include "core/sample/sampler.h"

namespace luna::engine {

struct Accepted {
  std::string generation_id;    // 128 random bits, hex
  uint32_t queue_position = 0;  // place in line, from 1; 0: runs at the next tick
  sample::SamplingParams sampling;
  sample::StopParams stopping;  // max_tokens is the effective one
  uint64_t seed = 0;
  uint32_t turn = 0;  // the session's, before this one
};

struct PromptDone {
  uint32_t tokens = 0;
  uint32_t cached_tokens = 0;
};

struct TokenLogprobs {
  TokenId token = 0;
  float logprob = 0.0f;
  std::vector<sample::TokenLogprob> top;
};

// Everything since the last TakeAll, joined.
struct Delta {
  std::string text;  // valid UTF-8
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;  // one per token if asked for, else empty
  bool empty() const { return text.empty() && tokens.empty(); }
};

enum class FinishReason { kStop, kLength, kCancelled, kDeadline, kError };
enum class Limit { kNone, kMaxTokens, kContext, kQuota, kPool };

struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;
  uint32_t completion_tokens = 0;
  uint32_t preemptions = 0;
  double queue_ms = 0, ttft_ms = 0, total_ms = 0;
  uint32_t peak_blocks = 0;
};

struct Finished {
  FinishReason reason = FinishReason::kStop;
  Limit limit = Limit::kNone;
  std::string stop = {};                // the stop string that ended it
  std::optional<TokenId> stop_id = {};  // or the end token or stop id
  absl::Status error = {};              // with kError
  Usage usage = {};
  uint32_t turn = 0;  // the session's, now
};

// Thread-safe: the engine thread writes, one reader takes. Shared by both. The protocol is Accept
// or Reject; after Accept any number of Append, PromptDone at most once, and exactly one Finish.
// Bounded by the request's own token limit, so the engine never waits for a reader.
class TokenStream {
 public:
  // `wake` is called by the writing side when something is there that was not when TakeAll last
  // looked: at most once between two TakeAlls. It neither blocks nor calls back into the stream.
  // May be empty: the reader polls (tests that drive Tick by hand).
  explicit TokenStream(std::function<void()> wake = {}) : wake_(std::move(wake)) {}
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  // --- Engine side. ---
  void Reserve(size_t tokens, size_t text_bytes);  // so that a steady tick allocates nothing
  void Accept(Accepted accepted);
  void Reject(absl::Status status);
  void PromptComputed(PromptDone prompt);
  // One sampled token with the text that became certain with it; `logprobs` may be null.
  void Append(std::string_view text, TokenId token, const TokenLogprobs* logprobs);
  // `tail`: text that had been held back.
  void Finish(std::string_view tail, Finished finished);

  // --- Reader side. ---
  struct Taken {
    std::optional<Accepted> accepted;
    std::optional<absl::Status> rejected;
    std::optional<PromptDone> prompt;
    Delta delta;
    std::optional<Finished> finished;
  };
  // Moves what is there into `out` (its buffers are reused). Each thing is handed out once.
  void TakeAll(Taken& out);

  // The reader is gone, or wants no more: the engine ends the generation at the first tick that
  // sees it and discards the turn. Any thread. The engine needs no wake-up for it: while a
  // generation lives, the engine ticks.
  void RequestCancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancel_requested() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  // Makes one change under the lock, then wakes the reader if that is due.
  template <typename Change>
  void Write(Change change);
  // Sets notified_ and says whether wake_ is due; called with mutex_ held.
  bool MarkReady();

  const std::function<void()> wake_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  Taken ready_;            // guarded by mutex_
  bool notified_ = false;  // guarded by mutex_
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_TOKEN_STREAM_H_
