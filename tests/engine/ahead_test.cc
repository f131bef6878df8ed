// Two steps in flight: the next one is launched before the last one's tokens are read, and nobody
// can tell but by the clock.
#include "tests/engine/ahead.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::EngineBench;
using fakes::Reader;
using testing::IsEmpty;

TEST(AheadTest, ASteadyDecodeHasTwoStepsInFlight) {
  EngineBench bench(OfDepth(2));
  Reader* reader = bench.Submit(Endless("abc"));
  for (size_t tick = 1; tick <= 20; ++tick) {
    bench.Tick();
    EXPECT_EQ(reader->answer.tokens.size(), tick);
    EXPECT_EQ(bench.backend().steps(), tick + 1);
    EXPECT_EQ(bench.backend().steps_ahead(), tick);  // all but the first
    EXPECT_EQ(bench.backend().in_flight(), 1);
  }
  EXPECT_EQ(reader->answer.tokens, WordsAlone(Endless("abc"), 20));
}

TEST(AheadTest, WithADepthOfOneNothingIsInFlightBetweenTicks) {
  EngineBench bench(OfDepth(1));
  bench.Submit(Endless("abc"));
  for (int tick = 1; tick <= 20; ++tick) {
    bench.Tick();
    EXPECT_EQ(bench.backend().steps(), tick);
    EXPECT_EQ(bench.backend().in_flight(), 0);
  }
  EXPECT_EQ(bench.backend().steps_ahead(), 0);
}

TEST(AheadTest, ACommandFindsNoStepInFlightAndWhatItBroughtIsOut) {
  EngineBench bench(OfDepth(2));
  Reader* reader = bench.Submit(Endless("abc"));
  bench.Tick(4);
  ASSERT_EQ(bench.backend().in_flight(), 1);
  const int published = bench.published();
  int in_flight = -1, woken = -1;
  bench.engine().ListSessions("test", [&](auto) {
    in_flight = bench.backend().in_flight();
    woken = bench.published() - published;
  });
  bench.Tick();
  EXPECT_EQ(in_flight, 0);
  EXPECT_EQ(woken, 1);
  EXPECT_EQ(reader->answer.tokens.size(), 6u);  // that one, and its tick's own
  EXPECT_EQ(bench.backend().in_flight(), 1);
}

TEST(AheadTest, WhatOnlyLooksDisturbsNothing) {
  EngineBench bench(OfDepth(2));
  bench.Submit(Endless("abc"));
  bench.Tick(4);
  int while_checking = -1, while_taking = -1;
  bench.engine().CheckInvariants([&](auto differences) {
    while_checking = bench.backend().in_flight();
    EXPECT_THAT(*differences, IsEmpty());
  });
  bench.engine().TakeSnapshot([&](auto) { while_taking = bench.backend().in_flight(); });
  bench.Tick();
  EXPECT_EQ(while_checking, 1);
  EXPECT_EQ(while_taking, 1);
  EXPECT_EQ(bench.backend().steps_ahead(), bench.backend().steps() - 1);
}

TEST(AheadTest, ANewRequestIsInTheStepAfterTheOneInFlight) {
  EngineBench bench(OfDepth(2));
  bench.Submit(Endless("abc"));
  bench.Tick(4);
  Reader* fresh = bench.Submit(Endless("xyz"));
  bench.Tick();
  EXPECT_EQ(fresh->answer.tokens.size(), 1u);
}

TEST(AheadTest, AChunkOfAPromptGoesBesideDecodes) {
  EngineBench::Options options = OfDepth(2);
  options.engine.max_batch_tokens = 8;
  EngineBench bench(options);
  Reader* talks = bench.Submit(Endless("abc"));
  bench.Tick(3);
  const Request question = Endless(std::string(50, 'q') + "?");
  Reader* asks = bench.Submit(question);
  bench.Tick();
  const int64_t before = bench.backend().steps(), ahead = bench.backend().steps_ahead();
  while (asks->answer.tokens.size() < 5) bench.Tick();
  EXPECT_EQ(bench.backend().steps_ahead() - ahead, bench.backend().steps() - before);
  EXPECT_EQ(talks->answer.max_gap, 1);
  EXPECT_EQ(asks->answer.tokens, WordsAlone(question, 5));
  EXPECT_EQ(talks->answer.tokens, WordsAlone(Endless("abc"), talks->answer.tokens.size()));
}

TEST(AheadTest, ThoseWhoCanOnlyWaitDoNotHoldTheNextStepUp) {
  EngineBench::Options options = OfDepth(2);
  options.engine.max_running = 2;
  EngineBench bench(options);
  for (int i = 0; i < 6; ++i) bench.Submit(Endless(absl::StrCat("student ", i)));
  bench.Tick(60);
  EXPECT_EQ(bench.snapshot().load.waiting, 4u);
  // All but the first, and the second, in which one comes in that begins alike.
  EXPECT_EQ(bench.backend().steps_ahead(), bench.backend().steps() - 2);
}

TEST(AheadTest, WithoutACacheEveryStepIsWaitedFor) {
  EngineBench::Options options = OfDepth(2);
  options.engine.keep_kv = false;
  EngineBench bench(options);
  EXPECT_EQ(bench.Run(Ask("abc", 9)).tokens, WordsAlone(Ask("abc", 9), 9));
  EXPECT_EQ(bench.backend().steps_ahead(), 0);
}

TEST(AheadTest, AStepTakesTheTimeFromCommitToCommit) {
  EngineBench bench(OfDepth(2));
  bench.backend().set_script([&bench](std::span<const TokenId>, TokenId word) {
    bench.clock().Advance(absl::Milliseconds(2));
    return word;
  });
  bench.Submit(Endless("abc"));
  bench.Tick(100);
  // Two in the backend, and the one that the bench lets pass before a tick.
  EXPECT_NEAR(bench.snapshot().load.step_ms, 3, 0.01);
}

TEST(AheadTest, ContinuationsShareCopyAndSayWhatTheySayAlone) {
  for (const auto& windows : {std::vector<int>{0, 0}, std::vector<int>{0, 9, 9}}) {
    const auto tell = [&windows](int depth, int64_t& ahead) {
      EngineBench bench(OfDepth(depth, windows));
      Request request = Ask("once upon a time in a class", 30);
      request.sampling.temperature = 1.0f;
      request.sampling.seed = 7;
      std::vector<Answer> answers;
      const std::vector<Reader*> readers = bench.SubmitMany(request, 6);
      bench.Tick(5);
      const Reader* late = bench.Submit(Ask("once upon a time in a school", 30));
      bench.RunToEnd();
      for (const Reader* reader : readers) answers.push_back(reader->answer);
      answers.push_back(late->answer);
      ahead = bench.backend().steps_ahead();
      return answers;
    };
    int64_t ahead = 0, none = 0;
    const std::vector<Answer> both = tell(2, ahead), alone = tell(1, none);
    for (size_t i = 0; i < both.size(); ++i) ExpectSameAnswer(both[i], alone[i]);
    EXPECT_GT(ahead, 20);
    EXPECT_EQ(none, 0);
  }
}

// A turn on a fork writes into a block that its origin holds too; its first row is in a step that
// is planned ahead, since the prompts of others take what the step before has of the budget.
TEST(AheadTest, ABlockIsCopiedBetweenTwoStepsInFlight) {
  const auto tell = [](int depth, int64_t& copies_ahead) {
    EngineBench::Options options = OfDepth(depth);
    options.engine.max_batch_tokens = 8;
    EngineBench bench(options);
    const SessionInfo origin = *bench.CreateSession();
    bench.Run(Ask("once upon", 3, origin.key));
    const SessionInfo fork = *bench.ForkSession(origin.key);
    Reader* talks = bench.Submit(Endless("abc"));
    bench.Tick(2);
    bench.Submit(Ask("a question", 3));
    bench.Submit(Ask("xyz", 3));
    Reader* on_fork = bench.Submit(Ask(" a time", 6, fork.key));
    while (!on_fork->answer.ended()) bench.Tick();
    talks->stream->RequestCancel();
    const Answer on_origin = bench.Run(Ask(" a time", 6, origin.key));
    ExpectSameWords(on_fork->answer, on_origin);
    copies_ahead = bench.backend().copies_ahead();
    return on_origin;
  };
  int64_t copies_ahead = 0, none = 0;
  ExpectSameWords(tell(2, copies_ahead), tell(1, none));
  EXPECT_GT(copies_ahead, 0);
}

}  // namespace
}  // namespace luna::engine
