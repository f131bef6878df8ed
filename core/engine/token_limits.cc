#include "core/engine/token_limits.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace luna::engine {
namespace {

absl::Status NeverFits(int64_t prompt_tokens, int64_t limit, std::string_view whose) {
  return absl::FailedPreconditionError(
      absl::StrCat("a prompt of ", prompt_tokens, " tokens and one more can never be computed: ",
                   AbslView(whose), " allows ", limit, " tokens in all"));
}

}  // namespace

TokenLimits LimitsOf(const kv::KvLayout& layout, int64_t context, int64_t quota_blocks,
                     int64_t pool_blocks) {
  const auto tokens_in = [&](int64_t blocks) {
    const int64_t computed = layout.TokensInBlocks(blocks, context - 1);
    return computed == 0 ? 0 : computed + 1;
  };
  return {.context = context, .quota = tokens_in(quota_blocks), .pool = tokens_in(pool_blocks)};
}

absl::Status CheckFits(const TokenLimits& limits, int64_t prompt_tokens, int64_t history_tokens) {
  if (prompt_tokens > limits.context) {
    if (history_tokens == 0) {
      return absl::OutOfRangeError(absl::StrCat("the prompt has ", prompt_tokens,
                                                " tokens; the context is ", limits.context));
    }
    return absl::OutOfRangeError(
        absl::StrCat("the turn adds ", prompt_tokens - history_tokens, " tokens to a history of ",
                     history_tokens, "; the context is ", limits.context, ": ",
                     std::max<int64_t>(0, limits.context - history_tokens), " are left"));
  }
  if (limits.quota < limits.context && prompt_tokens >= limits.quota) {
    return NeverFits(prompt_tokens, limits.quota, "the session's quota");
  }
  if (limits.pool < limits.context && prompt_tokens >= limits.pool) {
    return NeverFits(prompt_tokens, limits.pool, "the server's KV pool");
  }
  return absl::OkStatus();
}

AnswerLimit LimitAnswer(const TokenLimits& limits, int64_t prompt_tokens, int64_t asked) {
  AnswerLimit answer{limits.context - prompt_tokens, Limit::kContext};
  const auto lower = [&answer](int64_t tokens, Limit limit) {
    if (tokens < answer.max_tokens) answer = {tokens, limit};
  };
  lower(limits.quota - prompt_tokens, Limit::kQuota);
  lower(limits.pool - prompt_tokens, Limit::kPool);
  if (asked >= 0 && asked <= answer.max_tokens) answer = {asked, Limit::kMaxTokens};
  return answer;
}

}  // namespace luna::engine
