// What the tests of two steps in flight have in common.
#ifndef LUNA_TESTS_ENGINE_AHEAD_H_
#define LUNA_TESTS_ENGINE_AHEAD_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {

inline fakes::EngineBench::Options OfDepth(int depth, std::vector<int> windows = {0, 0}) {
  fakes::EngineBench::Options options;
  options.depth = depth;
  options.windows = std::move(windows);
  return options;
}

inline Request Endless(std::string_view prompt, std::string session = "") {
  Request request = fakes::Ask(prompt, -1, std::move(session));
  request.stopping.ignore_eos = true;
  return request;
}

inline std::vector<TokenId> WordsAlone(Request request, size_t count) {
  request.session_key.clear();
  request.stopping.max_tokens = static_cast<int64_t>(count);
  fakes::EngineBench bench(OfDepth(1));
  return bench.Run(request).tokens;
}

inline void ExpectSameWords(const fakes::Answer& a, const fakes::Answer& b) {
  ASSERT_TRUE(a.finished.has_value() && b.finished.has_value());
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.finished->reason, b.finished->reason);
  EXPECT_EQ(a.finished->limit, b.finished->limit);
  EXPECT_EQ(a.finished->stop, b.finished->stop);
  EXPECT_EQ(a.finished->stop_id, b.finished->stop_id);
  EXPECT_EQ(a.finished->turn, b.finished->turn);
}

inline void ExpectSameAnswer(const fakes::Answer& a, const fakes::Answer& b) {
  ExpectSameWords(a, b);
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
  for (size_t i = 0; i < a.logprobs.size(); ++i) {
    EXPECT_EQ(a.logprobs[i].token, b.logprobs[i].token);
    EXPECT_EQ(a.logprobs[i].logprob, b.logprobs[i].logprob);
    EXPECT_EQ(a.logprobs[i].top.size(), b.logprobs[i].top.size());
  }
  const Usage &usage = a.finished->usage, &other = b.finished->usage;
  EXPECT_EQ(usage.prompt_tokens, other.prompt_tokens);
  EXPECT_EQ(usage.completion_tokens, other.completion_tokens);
  EXPECT_EQ(usage.cached_tokens, other.cached_tokens);
  EXPECT_EQ(usage.preemptions, other.preemptions);
}

}  // namespace luna::engine

#endif  // LUNA_TESTS_ENGINE_AHEAD_H_
