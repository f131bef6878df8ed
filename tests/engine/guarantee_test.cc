// What is promised to a session, what it may not exceed, and what an operator may change.
#include <optional>
#include <string>
#include <vector>

#include "core/base/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::EngineBench;
using fakes::Reader;
using testing::HasSubstr;

// 100 blocks of four tokens; a context of 128 tokens takes 32.
EngineBench::Options Hundred() {
  EngineBench::Options options;
  options.num_blocks = 100;
  options.engine.prefix_sharing = PrefixSharing::kSession;
  return options;
}

LimitsUpdate Guarantee(const EngineBench& bench, int64_t blocks) {
  return {.quota_bytes = {}, .guarantee_bytes = blocks * bench.block_bytes()};
}

Request Long(int prompt_tokens, int64_t max_tokens, const std::string& session = "") {
  Request request = Ask(std::string(prompt_tokens, 't'), max_tokens, session);
  request.stopping.ignore_eos = true;
  return request;
}

TEST(GuaranteeTest, WhatIsGuaranteedIsNeverEvicted) {
  EngineBench bench(Hundred());
  const SessionInfo precious = *bench.CreateSession(), other = *bench.CreateSession();
  ASSERT_TRUE(bench.SetLimits(precious.id, Guarantee(bench, 10)).ok());
  bench.Run(Long(60, 1, precious.key));  // 15 blocks
  bench.Run(Long(60, 1, other.key));
  for (int i = 0; i < 6; ++i) bench.Submit(Long(60, 60));  // 30 blocks each
  bench.RunToEnd();
  EXPECT_EQ(bench.MemoryOf(other.key).charged_bytes, 0);
  EXPECT_EQ(bench.MemoryOf(precious.key).charged_bytes, 10 * bench.block_bytes());
  EXPECT_EQ(bench.MemoryOf(precious.key).guaranteed_bytes, 10 * bench.block_bytes());
  EXPECT_EQ(bench.snapshot().pool.reserved_blocks, 10);
}

// The pool is full of others, and a session below its guarantee still gets on at once, whether
// those that wait are another caller's or its own.
TEST(GuaranteeTest, WhoIsBelowItsGuaranteeIsServedWhateverOthersHold) {
  for (const char* caller : {"precious", "test"}) {
    SCOPED_TRACE(caller);
    EngineBench bench(Hundred());
    const SessionInfo precious = *bench.CreateSession();
    ASSERT_TRUE(bench.SetLimits(precious.id, Guarantee(bench, 20)).ok());
    std::vector<Reader*> others;
    for (int i = 0; i < 10; ++i) others.push_back(bench.Submit(Long(40, 80)));
    bench.Tick(40);
    EXPECT_GT(bench.snapshot().load.waiting, 0u);
    Request request = Long(40, 40, precious.key);
    request.caller = caller;
    const Reader* reader = bench.Submit(request);
    bench.Tick(3);
    EXPECT_FALSE(reader->answer.tokens.empty());
    bench.RunToEnd();
    EXPECT_EQ(reader->answer.finished->usage.preemptions, 0u);
    EXPECT_EQ(reader->answer.tokens.size(), 40u);
    for (const Reader* other : others) EXPECT_EQ(other->answer.tokens.size(), 80u);
  }
}

EngineBench::Options Windowed(int num_blocks) {
  EngineBench::Options options;
  options.windows = {0, 24, 24};
  options.num_blocks = num_blocks;
  options.engine.max_batch_tokens = 8;
  return options;
}

Request LongWithEnd(int prompt_tokens, const std::string& end, int64_t max_tokens) {
  Request request = Ask(std::string(prompt_tokens, 't') + end, max_tokens);
  request.stopping.ignore_eos = true;
  return request;
}

TEST(GuaranteeTest, WhoSharesWithOneThatIsSilentFitsAllTheSame) {
  EngineBench bench(Windowed(68));  // a context takes 50
  const SessionInfo session = *bench.CreateSession({.caller = "test"});
  ASSERT_TRUE(bench.SetLimits(session.id, Guarantee(bench, 18)).ok());
  bench.Run(Long(24, 1, session.key));
  const Answer answer = bench.Run(LongWithEnd(24, std::string(100, 'z'), 3));
  EXPECT_EQ(answer.finished->reason, FinishReason::kLength) << answer.finished->error;
}

// Its tail cannot go without the rest, and then what it was guaranteed is owed.
TEST(GuaranteeTest, AWindowedCacheThatGoesBringsOnlyWhatIsNotOwed) {
  EngineBench bench(Windowed(67));
  const SessionInfo session = *bench.CreateSession({.caller = "test"});
  ASSERT_TRUE(bench.SetLimits(session.id, Guarantee(bench, 17)).ok());
  bench.Run(Long(108, 1, session.key));
  std::vector<Reader*> readers;
  for (const char* end : {"bbbb", "cccc"}) {
    readers.push_back(bench.Submit(LongWithEnd(104, end, 20)));
  }
  bench.RunToEnd();
  for (const Reader* reader : readers) {
    EXPECT_EQ(reader->answer.tokens.size(), 20u);
    EXPECT_LE(reader->answer.max_gap, 30);
  }
}

// Who gives its place up gives up nothing of its guarantee: that was counted on, and who came in
// could not compute.
TEST(GuaranteeTest, APlaceThatIsGivenUpFreesNothingThatIsGuaranteed) {
  EngineBench bench(Hundred());
  bench.Submit(Long(40, 80));
  for (int i = 0; i < 2; ++i) {
    const SessionInfo precious = *bench.CreateSession();
    ASSERT_TRUE(bench.SetLimits(precious.id, Guarantee(bench, 30)).ok());
    bench.Submit(Long(40, 80, precious.key));
  }
  bench.Tick(60);  // 25 blocks each
  Request request = Long(100, 4);
  request.caller = "another";
  const Reader* reader = bench.Submit(request);
  bench.Tick(3);
  EXPECT_FALSE(reader->answer.tokens.empty());
  bench.RunToEnd();
  EXPECT_EQ(reader->answer.finished->usage.preemptions, 0u);
}

// What a new guarantee takes was counted on by those in the batch, who cannot be put off again;
// they are all the same, and nobody fails.
TEST(GuaranteeTest, ANewOneMayPutOffWhoeverIsInTheBatch) {
  EngineBench::Options options = Hundred();
  options.engine.max_batch_tokens = 8;  // who comes back takes many ticks to its next token
  EngineBench bench(options);
  const SessionInfo first = *bench.CreateSession(), second = *bench.CreateSession();
  std::vector<Reader*> readers;
  for (int i = 0; i < 8; ++i) readers.push_back(bench.Submit(Long(60, 60)));  // 30 blocks each
  for (int round = 0; round < 200; ++round) {
    const LimitsUpdate update = Guarantee(bench, round % 2 == 0 ? 32 : 0);
    ASSERT_TRUE(bench.SetLimits(first.id, update).ok());
    ASSERT_TRUE(bench.SetLimits(second.id, update).ok());
    bench.Tick(round % 7);
  }
  bench.RunToEnd();
  for (const Reader* reader : readers) {
    EXPECT_EQ(reader->answer.finished->reason, FinishReason::kLength)
        << reader->answer.finished->error;
    EXPECT_EQ(reader->answer.tokens.size(), 60u);
  }
}

TEST(GuaranteeTest, AllTogetherLeaveRoomForOneContext) {
  EngineBench bench(Hundred());
  const SessionInfo first = *bench.CreateSession(), second = *bench.CreateSession();
  const auto limits = bench.SetLimits(first.id, Guarantee(bench, 30));
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(limits->guarantee_bytes, 30 * bench.block_bytes());
  EXPECT_TRUE(bench.SetLimits(second.id, Guarantee(bench, 32)).ok());
  const SessionInfo third = *bench.CreateSession();
  const absl::Status refused = bench.SetLimits(third.id, Guarantee(bench, 7)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterOf(refused).has_value());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a guarantee of 896 bytes"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("7936 of the 8704 bytes"));
  EXPECT_TRUE(bench.SetLimits(third.id, Guarantee(bench, 6)).ok());
  ASSERT_TRUE(bench.CloseSession(second.key).ok());  // gives it back
  EXPECT_TRUE(bench.SetLimits(third.id, Guarantee(bench, 32)).ok());
}

TEST(GuaranteeTest, ByDefaultEverySessionHasIt) {
  EngineBench::Options options = Hundred();
  options.engine.default_guarantee_bytes = 30 * 128 + 5;  // whole blocks
  EngineBench bench(options);
  EXPECT_EQ(bench.CreateSession()->guarantee_bytes, 30 * bench.block_bytes());
  EXPECT_TRUE(bench.CreateSession().ok());
  EXPECT_EQ(bench.CreateSession().status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(LimitsUpdateTest, NonsenseIsRefusedAndChangesNothing) {
  EngineBench bench(Hundred());
  const SessionInfo session = *bench.CreateSession();
  const int64_t block = bench.block_bytes();
  const auto refused = [&](std::optional<int64_t> quota, std::optional<int64_t> guarantee) {
    return std::string(bench.SetLimits(session.id, {quota, guarantee}).status().message());
  };
  EXPECT_THAT(refused(101 * block, {}), HasSubstr("quota_bytes"));
  EXPECT_THAT(refused(block - 1, {}), HasSubstr("quota_bytes"));
  EXPECT_THAT(refused(10 * block, 11 * block), HasSubstr("is above the session's quota of 1280"));
  EXPECT_THAT(refused({}, -block), HasSubstr("guarantee_bytes"));
  EXPECT_EQ(bench.SetLimits(SessionId(99), {}).status().code(), absl::StatusCode::kNotFound);
  const SessionInfo after = *bench.GetSession(session.key);
  EXPECT_EQ(after.quota_bytes, session.quota_bytes);
  EXPECT_EQ(after.guarantee_bytes, 0);
  // A client may not lower its quota below what an operator guaranteed.
  ASSERT_TRUE(bench.SetLimits(session.id, Guarantee(bench, 10)).ok());
  SessionUpdate lower;
  lower.quota_bytes = 5 * block;
  EXPECT_EQ(bench.UpdateSession(session.key, lower).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LimitsUpdateTest, AnOperatorMayGoBeyondTheDefaultAndEndATurn) {
  EngineBench::Options options = Hundred();
  options.engine.default_quota_bytes = 10 * 128;
  EngineBench bench(options);
  const SessionInfo session = *bench.CreateSession();
  LimitsUpdate more;
  more.quota_bytes = 30 * bench.block_bytes();
  ASSERT_TRUE(bench.SetLimits(session.id, more).ok());
  Reader* reader = bench.Submit(Long(80, 30, session.key));  // more than ten blocks hold
  bench.Tick(5);
  LimitsUpdate less;
  less.quota_bytes = 20 * bench.block_bytes();
  ASSERT_TRUE(bench.SetLimits(session.id, less).ok());
  bench.RunToEnd();
  EXPECT_EQ(reader->answer.finished->reason, FinishReason::kLength);
  EXPECT_EQ(reader->answer.finished->limit, Limit::kQuota);
}

TEST(LimitsUpdateTest, AOneOffMayEndByIt) {
  EngineBench bench(Hundred());
  const Reader* reader = bench.Submit(Long(80, 30));
  bench.Tick(3);
  LimitsUpdate less;
  less.quota_bytes = 10 * bench.block_bytes();
  EXPECT_TRUE(bench.SetLimits(bench.snapshot().sessions.front().id, less).ok());
  bench.RunToEnd();
  EXPECT_EQ(reader->answer.finished->limit, Limit::kQuota);
}

TEST(EvictionTest, StopsAtTheGuaranteeUnlessForced) {
  EngineBench bench(Hundred());
  const SessionInfo session = *bench.CreateSession();
  ASSERT_TRUE(bench.SetLimits(session.id, Guarantee(bench, 4)).ok());
  const Answer first = bench.Run(Long(60, 5, session.key));
  const auto eviction = bench.EvictSession(session.id);
  ASSERT_TRUE(eviction.ok()) << eviction.status();
  EXPECT_EQ(eviction->evicted_bytes, 12 * bench.block_bytes());
  EXPECT_EQ(eviction->charged_bytes, 4 * bench.block_bytes());
  EXPECT_EQ(bench.MemoryOf(session.key).evictions, 1u);
  EXPECT_EQ(bench.EvictSession(session.id)->evicted_bytes, 0);
  EXPECT_EQ(bench.MemoryOf(session.key).evictions, 1u);
  EXPECT_EQ(bench.EvictSession(session.id, /*force=*/true)->charged_bytes, 0);

  const Answer second = bench.Run(Long(3, 5, session.key));
  EngineBench fresh(Hundred());
  const SessionInfo alone = *fresh.CreateSession();
  fresh.Run(Long(60, 5, alone.key));
  EXPECT_EQ(fresh.Run(Long(3, 5, alone.key)).tokens, second.tokens);
}

TEST(EvictionTest, ATurnInProgressKeepsItsCache) {
  EngineBench bench(Hundred());
  const SessionInfo session = *bench.CreateSession();
  bench.Submit(Long(10, 20, session.key));
  bench.Tick(3);
  EXPECT_EQ(bench.EvictSession(session.id, true).status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace luna::engine
