// One generation's mutable state: its tokens, its answer so far, and where it stands.
#ifndef LUNA_CORE_SCHED_SEQUENCE_H_
#define LUNA_CORE_SCHED_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/ids.h"
#include "core/sample/params.h"
#include "core/sample/sampler.h"
#include "core/sample/stop_matcher.h"
#include "core/sched/session_cache.h"
#include "core/text/incremental_detokenizer.h"
#include "core/text/tokenizer.h"

namespace luna::sched {

struct SequenceSpec {
  SequenceId id;
  uint64_t caller = 0;          // whose it is, for fairness; equal numbers: the same caller
  int priority = 0;             // among the caller's own, higher is admitted first
  std::vector<TokenId> prompt;  // history included; not empty
  sample::SamplingParams sampling;
  sample::StopParams stopping;  // max_tokens is the effective one, at least 1
  uint64_t seed = 0;
};

// How a sequence ended by itself.
struct Ending {
  enum class Kind { kNone, kStopId, kStopString, kMaxTokens, kError };
  Kind kind = Kind::kNone;
  int stop_string = -1;  // index into StopParams::stop
  absl::Status error;

  bool ended() const { return kind != Kind::kNone; }
};

// Engine thread only. Borrows the session's cache and the tokenizer.
class Sequence {
 public:
  Sequence(SequenceSpec spec, SessionCache* cache, const text::Tokenizer* tokenizer);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  SequenceId id() const { return spec_.id; }
  uint64_t caller() const { return spec_.caller; }
  int priority() const { return spec_.priority; }
  uint64_t seed() const { return spec_.seed; }
  const sample::SamplingParams& sampling() const { return spec_.sampling; }
  const sample::StopParams& stopping() const { return spec_.stopping; }
  SessionCache& cache() const { return *cache_; }

  // Prompt, then output.
  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const TokenId> output() const { return tokens().subspan(prompt_tokens_); }
  int num_tokens() const { return static_cast<int>(tokens_.size()); }
  int prompt_tokens() const { return prompt_tokens_; }
  int output_tokens() const { return num_tokens() - prompt_tokens_; }
  // The most tokens it will ever have computed: the last sampled one has no KV.
  int64_t final_computed_tokens() const { return prompt_tokens_ + spec_.stopping.max_tokens - 1; }

  // Everything that became certain of the answer, and what the last Append or Flush added to it.
  const std::string& answer() const { return answer_; }
  std::string_view fresh_text() const { return std::string_view(answer_).substr(fresh_begin_); }

  // Room for all that may come, so that a decode touches no heap.
  void Reserve();
  // What the next token's choice depends on; its logits are in row `row` of the step. `pending` is
  // not -1 where it follows a token that is not known yet: that sample of the step before.
  sample::SampleSpec Sample(int row, int pending = -1) const;
  // Takes a sampled token: text, stop rules, limit.
  Ending Append(TokenId token);
  // The end came from outside: text that was held back becomes fresh.
  void Flush();
  // Lowers the limit; `max_tokens` is at least 1 and above what is there.
  void LimitTokens(int64_t max_tokens) { spec_.stopping.max_tokens = max_tokens; }

  // Written by the scheduler alone.
  struct Schedule {
    bool running = false;
    bool was_admitted = false;
    bool preempted_since_token = false;  // nobody is preempted twice without a token between
    int launched_tokens = 0;  // given to the backend; the cache's computed if nothing is in flight
    int coming_tokens = 0;    // that steps in flight choose
    int coming_sample = -1;   // which sample of its step the newest of them is
    int cached_tokens = 0;    // computed already when it was first admitted
    uint32_t preemptions = 0;
    bool gave_way = false;      // to somebody who was given less
    uint64_t hungry_since = 0;  // counter of its submission or its last token
  };
  Schedule schedule;
  // With those that are coming, as far as there will be anything to compute of them.
  int expected_tokens() const {
    return static_cast<int>(
        std::min<int64_t>(num_tokens() + schedule.coming_tokens, final_computed_tokens()));
  }
  int remaining_tokens() const { return expected_tokens() - schedule.launched_tokens; }
  // What its admission counts for: what there is to compute, but nothing a second time.
  int tokens_to_charge() const {
    return schedule.was_admitted ? 0 : num_tokens() - cache_->kv.computed_tokens();
  }

 private:
  bool Ends(TokenId token) const;

  SequenceSpec spec_;
  SessionCache* const cache_;
  const text::Tokenizer* const tokenizer_;
  std::vector<TokenId> tokens_;
  const int prompt_tokens_;
  std::vector<TokenId> ending_ids_;  // end tokens and stop ids: any of them ends it
  text::IncrementalDetokenizer detokenizer_;
  sample::StopMatcher stop_matcher_;
  std::string piece_;  // text of one token
  std::string answer_;
  size_t fresh_begin_ = 0;
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_SEQUENCE_H_
