// Steps that fail while another one is in flight.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/ahead.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::EngineBench;
using fakes::Reader;
using testing::IsEmpty;

const absl::Status kBroken = absl::InternalError("the device is gone");

TEST(AheadFaultTest, ALaunchThatFailsEndsThoseInItAfterTheOneInFlight) {
  EngineBench bench(OfDepth(2));
  const SessionInfo session = *bench.CreateSession();
  bench.Run(Ask("hello", 3, session.key));
  Reader* endless = bench.Submit(Endless("abc", session.key));
  Reader* ends = bench.Submit(Ask("xyz", 4));
  bench.Tick(3);
  ASSERT_EQ(bench.backend().in_flight(), 1);
  bench.backend().FailNextLaunch(kBroken);
  bench.Tick();
  EXPECT_EQ(bench.backend().in_flight(), 0);
  EXPECT_EQ(endless->answer.tokens.size(), 4u);
  ASSERT_TRUE(endless->answer.finished.has_value());
  EXPECT_EQ(endless->answer.finished->error, kBroken);
  EXPECT_EQ(endless->answer.finished->turn, 1u);
  // It had its last token in the step before, and no row in the one that failed.
  EXPECT_EQ(ends->answer.finished->reason, FinishReason::kLength);
  EXPECT_EQ(bench.GetSession(session.key)->turn, 1u);
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 0);
  EXPECT_TRUE(bench.Run(Ask("again", 3, session.key)).finished.has_value());
}

// Four callers in steps of eight tokens: the fourth's prompt comes in with the second of two steps.
struct FourInTwoSteps {
  explicit FourInTwoSteps(EngineBench& bench) {
    talks = bench.Submit(Endless("abc"));
    bench.Tick(2);
    asks = bench.Submit(Endless("a question"));
    short_one = bench.Submit(Endless("xyz"));
    later = bench.Submit(LaterRequest());
    // Runs between the steps that were in flight and those of this tick.
    bench.engine().ListSessions("test",
                                [&bench](auto) { bench.backend().FailNextCollect(kBroken); });
    bench.Tick();
    EXPECT_EQ(bench.backend().in_flight(), 1);
    for (const Reader* reader : {talks, asks, short_one}) {
      const auto& finished = reader->answer.finished;
      EXPECT_TRUE(finished.has_value() && finished->error == kBroken);
    }
    EXPECT_FALSE(later->answer.ended());
  }
  static Request LaterRequest() { return Ask("the fourth", 6); }
  static EngineBench::Options Options() {
    EngineBench::Options options = OfDepth(2);
    options.engine.max_batch_tokens = 8;
    return options;
  }

  Reader *talks, *asks, *short_one, *later;
};

TEST(AheadFaultTest, AStepThatFailsEndsThoseInItAndTheNextIsCollectedAllTheSame) {
  EngineBench bench(FourInTwoSteps::Options());
  const FourInTwoSteps four(bench);
  bench.RunToEnd();
  EngineBench alone(OfDepth(1));
  ExpectSameAnswer(four.later->answer, alone.Run(FourInTwoSteps::LaterRequest()));
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 0);
}

TEST(AheadFaultTest, ALostDeviceFailsBothStepsAndEndsEverybodyOnce) {
  EngineBench bench(FourInTwoSteps::Options());
  const FourInTwoSteps four(bench);
  bench.backend().FailNextCollect(kBroken);
  bench.backend().FailNextLaunch(kBroken);
  bench.RunToEnd();
  EXPECT_EQ(four.later->answer.finished->error, kBroken);
  EXPECT_THAT(four.later->answer.tokens, IsEmpty());
  EXPECT_EQ(bench.backend().in_flight(), 0);
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 0);
  EXPECT_TRUE(bench.Run(Ask("again", 3)).finished.has_value());
}

TEST(AheadFaultTest, ARowThatFailsEndsItsGenerationAloneAndItsNextRowIsSuperfluous) {
  EngineBench bench(OfDepth(2));
  const SessionInfo session = *bench.CreateSession();
  Reader* unlucky = bench.Submit(Endless("abc", session.key));
  Reader* lucky = bench.Submit(Endless("xyz"));
  bench.Tick(3);
  bench.backend().FailNextRow(0, absl::InternalError("the logits are not finite"));
  bench.Tick();
  ASSERT_TRUE(unlucky->answer.finished.has_value());
  EXPECT_EQ(unlucky->answer.finished->error.message(), "the logits are not finite");
  EXPECT_EQ(unlucky->answer.tokens.size(), 3u);
  EXPECT_EQ(bench.MemoryOf(session.key).charged_bytes, 0);
  bench.Tick(4);
  EXPECT_EQ(unlucky->answer.tokens.size(), 3u);
  EXPECT_EQ(lucky->answer.tokens, WordsAlone(Endless("xyz"), 8));
}

TEST(AheadFaultTest, ATokenOutsideTheVocabularyIsAFaultOfItsRow) {
  EngineBench bench(OfDepth(2));
  bench.backend().set_script([](std::span<const TokenId>, TokenId) { return 100'000; });
  EXPECT_EQ(bench.Run(Endless("abc")).finished->reason, FinishReason::kError);
}

}  // namespace
}  // namespace luna::engine
