// How long a generation may become, and which limit says so.
#ifndef LUNA_CORE_ENGINE_TOKEN_LIMITS_H_
#define LUNA_CORE_ENGINE_TOKEN_LIMITS_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "core/engine/token_stream.h"
#include "core/kv/layout.h"

namespace luna::engine {

// The most tokens in all, prompt and answer. The last one needs no KV, so blocks for n computed
// tokens allow n + 1. None is above `context`.
struct TokenLimits {
  int64_t context = 0;
  int64_t quota = 0;
  int64_t pool = 0;

  int64_t least() const { return std::min({context, quota, pool}); }
};

TokenLimits LimitsOf(const kv::KvLayout& layout, int64_t context, int64_t quota_blocks,
                     int64_t pool_blocks);

// Whether `prompt_tokens` and one more can ever be computed; a prompt of exactly the context is
// allowed, and gets no answer. OUT_OF_RANGE names what is left of the context after
// `history_tokens`; FAILED_PRECONDITION the quota or the pool.
absl::Status CheckFits(const TokenLimits& limits, int64_t prompt_tokens, int64_t history_tokens);

struct AnswerLimit {
  int64_t max_tokens = 0;
  Limit limit = Limit::kMaxTokens;
};
// The least of what was asked for (-1: no limit) and what is left; on a tie what is named first.
AnswerLimit LimitAnswer(const TokenLimits& limits, int64_t prompt_tokens, int64_t asked);

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_TOKEN_LIMITS_H_
