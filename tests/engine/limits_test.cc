// How long a prompt and an answer may be: every limit at its edge.
#include <string>

#include "core/base/status_details.h"
#include "core/engine/token_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::EngineBench;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Text(int tokens) { return std::string(tokens, 't'); }

Request Long(int prompt_tokens, int64_t max_tokens, std::string session = "") {
  Request request = Ask(Text(prompt_tokens), max_tokens, std::move(session));
  request.stopping.ignore_eos = true;
  return request;
}

// verl-tool#86: max_tokens = 0.
TEST(LimitsTest, ZeroTokensAreAcceptedAndEndByLength) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  const Answer answer = bench.Run(Long(10, 0, session.key));
  ASSERT_TRUE(answer.accepted.has_value());
  EXPECT_EQ(answer.finished->reason, FinishReason::kLength);
  EXPECT_EQ(answer.finished->limit, Limit::kMaxTokens);
  EXPECT_THAT(answer.tokens, IsEmpty());
  EXPECT_EQ(answer.finished->turn, 1u);
  EXPECT_EQ(bench.GetSession(session.key)->tokens, 10u);
  EXPECT_EQ(bench.backend().steps(), 0);
}

// v#16445, v#765: a prompt of exactly the context length.
TEST(LimitsTest, ContextLessOneContextAndContextAndOne) {
  EngineBench bench;
  const Answer less = bench.Run(Long(127, -1));
  ASSERT_TRUE(less.finished.has_value());
  EXPECT_EQ(less.tokens.size(), 1u);
  EXPECT_EQ(less.finished->limit, Limit::kContext);

  const Answer exact = bench.Run(Long(128, -1));
  ASSERT_TRUE(exact.finished.has_value());
  EXPECT_THAT(exact.tokens, IsEmpty());
  EXPECT_EQ(exact.finished->reason, FinishReason::kLength);
  EXPECT_EQ(exact.finished->limit, Limit::kContext);

  const Answer more = bench.Run(Long(129, -1));
  ASSERT_TRUE(more.rejected.has_value());
  EXPECT_EQ(more.rejected->code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(more.rejected->message(), "the prompt has 129 tokens; the context is 128");
}

TEST(LimitsTest, TheAnswerEndsWhereTheContextDoes) {
  EngineBench bench;
  const Answer answer = bench.Run(Long(100, 1000));
  EXPECT_EQ(answer.accepted->stopping.max_tokens, 28);
  EXPECT_EQ(answer.tokens.size(), 28u);
  EXPECT_EQ(answer.finished->limit, Limit::kContext);
}

TEST(LimitsTest, OnATieTheCallersOwnLimitIsNamed) {
  EngineBench bench;
  EXPECT_EQ(bench.Run(Long(100, 28)).finished->limit, Limit::kMaxTokens);
}

TEST(LimitsTest, TheQuotaEndsAnAnswerToTheToken) {
  EngineBench bench;
  SessionSpec spec;
  spec.quota_bytes = 10 * bench.block_bytes();  // 40 computed tokens, 41 in all
  const SessionInfo session = *bench.CreateSession(spec);
  const Answer answer = bench.Run(Long(20, -1, session.key));
  EXPECT_EQ(answer.tokens.size(), 21u);
  EXPECT_EQ(answer.finished->limit, Limit::kQuota);
  EXPECT_EQ(bench.MemoryOf(session.key).charged_bytes, 10 * bench.block_bytes());
  EXPECT_EQ(bench.MemoryOf(session.key).slack_bytes, 0);
}

TEST(LimitsTest, APromptThatLeavesRoomForOneTokenIsTaken) {
  EngineBench bench;
  SessionSpec spec;
  spec.quota_bytes = 10 * bench.block_bytes();
  const SessionInfo session = *bench.CreateSession(spec);
  EXPECT_EQ(bench.Run(Long(40, -1, session.key)).tokens.size(), 1u);
  ASSERT_TRUE(bench.ResetSession(session.key).ok());
  const Answer refused = bench.Run(Long(41, -1, session.key));
  ASSERT_TRUE(refused.rejected.has_value());
  EXPECT_EQ(refused.rejected->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      refused.rejected->message(),
      "a prompt of 41 tokens and one more can never be computed: the session's quota allows 41 "
      "tokens in all");
}

TEST(LimitsTest, ThePoolEndsAnAnswerToTheToken) {
  EngineBench::Options options;
  options.num_blocks = 12;
  EngineBench bench(options);
  const Answer answer = bench.Run(Long(20, -1));
  EXPECT_EQ(answer.tokens.size(), 29u);
  EXPECT_EQ(answer.finished->limit, Limit::kPool);
}

// v#39734: a request larger than the pool stalled the whole queue.
TEST(LimitsTest, WhatCanNeverFitIsRefusedAtOnceAndTheQueueGoesOn) {
  EngineBench::Options options;
  options.num_blocks = 12;
  EngineBench bench(options);
  fakes::Reader* before = bench.Submit(Long(20, 5));
  fakes::Reader* huge = bench.Submit(Long(60, 5));
  fakes::Reader* after = bench.Submit(Long(20, 5));
  bench.Tick();
  ASSERT_TRUE(huge->answer.rejected.has_value());
  EXPECT_EQ(huge->answer.rejected->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(huge->answer.rejected->message()), HasSubstr("the server's KV pool"));
  bench.RunToEnd();
  EXPECT_EQ(before->answer.tokens.size(), 5u);
  EXPECT_EQ(after->answer.tokens.size(), 5u);
}

// v#7283, l#5246: an empty prompt stopped the server.
TEST(LimitsTest, AnEmptyPromptIsRefusedByName) {
  EngineBench bench;
  const Answer answer = bench.Run(Long(0, 5));
  ASSERT_TRUE(answer.rejected.has_value());
  EXPECT_EQ(answer.rejected->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(*answer.rejected), "input");
  EXPECT_EQ(bench.Run(Long(1, 5)).tokens.size(), 5u);
}

TEST(LimitsTest, AnEmptyTurnOnAHistoryGoesOnFromIt) {
  EngineBench bench, other;
  const SessionInfo session = *bench.CreateSession();
  const Answer first = bench.Run(Long(9, 6, session.key));
  const Answer second = bench.Run(Long(0, 6, session.key));
  std::vector<TokenId> joined = first.tokens;
  joined.insert(joined.end(), second.tokens.begin(), second.tokens.end());
  EXPECT_EQ(other.Run(Long(9, 12)).tokens, joined);
}

TEST(LimitsTest, AnEmptyTurnAfterADiscardedOneStillHasATokenToCompute) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  bench.Run(Long(9, 6, session.key));
  fakes::Reader* reader = bench.Submit(Long(3, 50, session.key));
  bench.Tick(4);
  reader->stream->RequestCancel();
  bench.RunToEnd();  // the whole history is computed now
  EXPECT_EQ(bench.MemoryOf(session.key).used_bytes, 15 * bench.layout().token_bytes());
  EXPECT_EQ(bench.Run(Long(0, 6, session.key)).tokens.size(), 6u);
}

TEST(LimitsTest, AQuotaLoweredDuringATurnShortensIt) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  fakes::Reader* reader = bench.Submit(Long(20, 60, session.key));
  bench.Tick(5);
  SessionUpdate update;
  update.quota_bytes = 8 * bench.block_bytes();  // 33 tokens in all
  ASSERT_TRUE(bench.UpdateSession(session.key, update).ok());
  bench.RunToEnd();
  EXPECT_EQ(reader->answer.finished->reason, FinishReason::kLength);
  EXPECT_EQ(reader->answer.finished->limit, Limit::kQuota);
  EXPECT_EQ(reader->answer.tokens.size(), 13u);
}

TEST(LimitsTest, AQuotaLoweredBelowATurnEndsItAndDropsCacheNotHistory) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  fakes::Reader* reader = bench.Submit(Long(20, 60, session.key));
  bench.Tick(5);
  SessionUpdate update;
  update.quota_bytes = 2 * bench.block_bytes();
  ASSERT_TRUE(bench.UpdateSession(session.key, update).ok());
  bench.Tick();
  EXPECT_EQ(reader->answer.finished->limit, Limit::kQuota);
  const uint32_t said = bench.backend().depth() > 1 ? 6 : 5;  // one was on its way
  EXPECT_EQ(reader->answer.tokens.size(), said);
  EXPECT_EQ(bench.GetSession(session.key)->tokens, 20 + said);
  EXPECT_EQ(bench.MemoryOf(session.key).charged_bytes, 2 * bench.block_bytes());
  const Answer refused = bench.Run(Long(1, 5, session.key));
  EXPECT_EQ(refused.rejected->code(), absl::StatusCode::kFailedPrecondition);
}

TEST(LimitsTest, WindowsLetALongTextLiveInFewBlocks) {
  EngineBench::Options options;
  options.windows = {16, 16};
  options.num_blocks = 6;  // a window of 16 tokens touches at most 5 blocks of 4
  EngineBench bench(options);
  const Answer answer = bench.Run(Long(100, -1));
  EXPECT_EQ(answer.tokens.size(), 28u);
  EXPECT_EQ(answer.finished->limit, Limit::kContext);
}

}  // namespace
}  // namespace luna::engine
