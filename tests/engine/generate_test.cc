// One generation from its request to its end.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::Bytes;
using fakes::EngineBench;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

// Says `text` after any prompt of `prompt_tokens` tokens, then ends.
fakes::FakeBackend::Script Say(std::string text, size_t prompt_tokens) {
  return [text, prompt_tokens](std::span<const TokenId> history, TokenId) {
    const size_t said = history.size() - prompt_tokens;
    return said < text.size() ? TokenId{static_cast<unsigned char>(text[said])} : fakes::kEnd;
  };
}

TEST(GenerateTest, AnAnswerEndsAtItsEndToken) {
  EngineBench bench;
  bench.backend().set_script(Say("hello", 4));
  const Answer answer = bench.Run(Ask("abcd", -1));
  ASSERT_TRUE(answer.accepted.has_value());
  EXPECT_EQ(answer.text, "hello");
  ASSERT_TRUE(answer.finished.has_value());
  EXPECT_EQ(answer.finished->reason, FinishReason::kStop);
  EXPECT_EQ(answer.finished->stop_id, fakes::kEnd);
  EXPECT_THAT(answer.tokens, ElementsAre('h', 'e', 'l', 'l', 'o', fakes::kEnd));
  EXPECT_EQ(answer.finished->usage.prompt_tokens, 4u);
  EXPECT_EQ(answer.finished->usage.completion_tokens, 6u);
  EXPECT_EQ(answer.prompt->tokens, 4u);
  EXPECT_EQ(answer.prompt->cached_tokens, 0u);
}

}  // namespace
}  // namespace luna::engine
