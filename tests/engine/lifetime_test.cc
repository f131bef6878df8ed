// The life of a request: cancel, deadline, abort, drain, stop; what is freed, and when.
#include <memory>
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
using testing::IsEmpty;

Request Endless(std::string prompt, std::string session = "") {
  Request request = Ask(prompt, -1, std::move(session));
  request.stopping.ignore_eos = true;
  return request;
}

// l#11720, mini-sglang#15: a client that left kept generating.
TEST(LifetimeTest, ACancelledStreamFreesItsBlocksWithinATick) {
  EngineBench bench;
  Reader* gone = bench.Submit(Endless("abc"));
  Reader* stays = bench.Submit(Endless("xyz"));
  bench.Tick(10);
  const int64_t both = bench.snapshot().pool.charged_blocks;
  gone->stream->RequestCancel();
  bench.Tick();
  EXPECT_EQ(gone->answer.finished->reason, FinishReason::kCancelled);
  EXPECT_LT(bench.snapshot().pool.charged_blocks, both);
  EXPECT_EQ(bench.snapshot().load.running, 1u);
  const int64_t computed = bench.backend().computed_tokens();
  bench.Tick();
  EXPECT_EQ(bench.backend().computed_tokens() - computed, 1);
  EXPECT_FALSE(stays->answer.ended());
}

TEST(LifetimeTest, ADeadlineEndsAGenerationAtTheFirstTickThatSeesIt) {
  EngineBench bench;
  Request request = Endless("abc");
  request.deadline = bench.clock().Now() + absl::Milliseconds(5);
  Reader* reader = bench.Submit(request);
  bench.Tick(4);
  EXPECT_FALSE(reader->answer.ended());
  bench.Tick();
  ASSERT_TRUE(reader->answer.finished.has_value());
  EXPECT_EQ(reader->answer.finished->reason, FinishReason::kDeadline);
  EXPECT_EQ(reader->answer.tokens.size(), 4u);
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 0);
}

TEST(LifetimeTest, ADeadlineThatHasPassedIsRefused) {
  EngineBench bench;
  Request request = Endless("abc");
  request.deadline = bench.clock().Now();
  EXPECT_EQ(bench.Run(request).rejected->code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(LifetimeTest, AbortIsIdempotentAndUnknownIdsAreNotLive) {
  EngineBench bench;
  Reader* reader = bench.Submit(Endless("abc"));
  bench.Tick(2);
  const std::string id = reader->answer.accepted->generation_id;
  EXPECT_TRUE(*bench.Abort(id));
  EXPECT_FALSE(*bench.Abort(id));
  EXPECT_FALSE(*bench.Abort("unknown"));
  EXPECT_EQ(reader->answer.finished->reason, FinishReason::kCancelled);
}

TEST(LifetimeTest, AWaitingGenerationCanBeCancelledToo) {
  EngineBench::Options options;
  options.engine.max_running = 1;
  EngineBench bench(options);
  bench.Submit(Endless("abc"));
  Reader* waiting = bench.Submit(Endless("xyz"));
  bench.Tick(2);
  EXPECT_EQ(bench.snapshot().load.waiting, 1u);
  waiting->stream->RequestCancel();
  bench.Tick();
  EXPECT_EQ(waiting->answer.finished->reason, FinishReason::kCancelled);
  EXPECT_DOUBLE_EQ(waiting->answer.finished->usage.ttft_ms, 0);
  EXPECT_EQ(bench.snapshot().load.waiting, 0u);
}

// v#22545: gauges stuck or negative after aborts.
TEST(LifetimeTest, EverythingIsZeroWhenIdle) {
  EngineBench bench;
  for (int i = 0; i < 20; ++i) {
    Reader* reader = bench.Submit(Endless("abc"));
    bench.Tick(i % 4);
    if (i % 2 == 0) reader->stream->RequestCancel();
  }
  bench.RunToEnd();
  const Snapshot& idle = bench.snapshot();
  EXPECT_EQ(idle.load.running, 0u);
  EXPECT_EQ(idle.load.waiting, 0u);
  EXPECT_EQ(idle.load.finished, 20u);
  EXPECT_EQ(idle.pool.charged_blocks, 0);
  EXPECT_THAT(idle.sessions, IsEmpty());
  EXPECT_TRUE(bench.engine().Idle());
  EXPECT_FALSE(bench.engine().Tick());
}

TEST(LifetimeTest, AFullQueueRefusesWithBothNumbersAndARetry) {
  EngineBench::Options options;
  options.engine.max_running = 2;
  options.engine.queue_limit = 3;
  EngineBench bench(options);
  std::vector<Reader*> readers;
  for (int i = 0; i < 6; ++i) readers.push_back(bench.Submit(Ask("abc", 4)));
  bench.Tick();
  const Answer& refused = readers[5]->answer;
  ASSERT_TRUE(refused.rejected.has_value());
  EXPECT_EQ(refused.rejected->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.rejected->message(), "the queue is full: 3 generations wait; the limit is 3");
  EXPECT_TRUE(RetryAfterOf(*refused.rejected).has_value());
  EXPECT_EQ(readers[1]->answer.accepted->queue_position, 0u);
  EXPECT_EQ(readers[2]->answer.accepted->queue_position, 1u);
  EXPECT_EQ(readers[4]->answer.accepted->queue_position, 3u);
  bench.RunToEnd();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(readers[i]->answer.finished.has_value());
}

// One caller filled the line, and everybody else was refused until it was served.
TEST(LifetimeTest, AFloodOfOneCallerShutsNobodyOut) {
  EngineBench::Options options;
  options.engine.max_running = 2;
  options.engine.queue_limit = 4;
  EngineBench bench(options);
  std::vector<Reader*> flood;
  for (int i = 0; i < 20; ++i) flood.push_back(bench.Submit(Endless("abc")));
  bench.Tick();
  EXPECT_TRUE(flood[19]->answer.rejected.has_value());
  Request other = Ask("xyz", 4);
  other.caller = "another";
  Reader* student = bench.Submit(other);
  bench.Tick(6);
  ASSERT_TRUE(student->answer.finished.has_value());
  EXPECT_EQ(student->answer.tokens.size(), 4u);
}

TEST(LifetimeTest, WithoutAQueueWhoFitsStillRuns) {
  EngineBench::Options options;
  options.engine.queue_limit = 0;
  options.engine.max_running = 2;
  EngineBench bench(options);
  Reader* a = bench.Submit(Ask("abc", 4));
  Reader* b = bench.Submit(Ask("abc", 4));
  Reader* c = bench.Submit(Ask("abc", 4));
  bench.RunToEnd();
  EXPECT_TRUE(a->answer.finished.has_value());
  EXPECT_TRUE(b->answer.finished.has_value());
  EXPECT_TRUE(c->answer.rejected.has_value());
}

// smg PR#1172: SIGTERM cut streams.
TEST(LifetimeTest, DrainingFinishesWhatLivesAndRefusesWhatIsNew) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  Request request = Ask("abc", 20);
  request.stopping.ignore_eos = true;
  Reader* live = bench.Submit(request);
  bench.Tick(2);
  EXPECT_EQ(*bench.Drain(), 1u);
  EXPECT_TRUE(bench.snapshot().load.draining);
  Reader* fresh = bench.Submit(request);
  EXPECT_EQ(bench.CreateSession().status().code(), absl::StatusCode::kUnavailable);
  bench.RunToEnd();
  EXPECT_EQ(fresh->answer.rejected->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(live->answer.tokens.size(), 20u);
  EXPECT_EQ(live->answer.finished->reason, FinishReason::kLength);
  EXPECT_TRUE(bench.GetSession(session.key).ok());
}

TEST(LifetimeTest, StopEndsWhatLivesAndAnswersEveryCommand) {
  fakes::FakeBackend backend(128);
  const kv::KvLayout layout = kv::MakeLayout(std::vector<int>{0}, 4, 16);
  ASSERT_TRUE(backend.AllocateKv(layout, 50).ok());
  fakes::FakeTokenizer tokenizer;
  FakeClock clock;
  EngineOptions options;
  options.layout = layout;
  options.num_blocks = 50;
  Engine engine(options, &backend, &tokenizer, &clock);

  auto live = std::make_shared<TokenStream>(), late = std::make_shared<TokenStream>();
  auto after = std::make_shared<TokenStream>();
  engine.Submit(Endless("abc"), live);
  engine.Tick();
  engine.Submit(Endless("abc"), late);
  absl::Status listed, pictured;
  engine.ListSessions("x", [&](auto result) { listed = result.status(); });
  engine.TakeSnapshot([&](auto result) { pictured = result.status(); });
  engine.Stop();
  engine.Stop();
  engine.Submit(Endless("abc"), after);
  EXPECT_EQ(listed.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(pictured.code(), absl::StatusCode::kUnavailable);
  TokenStream::Taken taken;
  live->TakeAll(taken);
  ASSERT_TRUE(taken.finished.has_value());
  EXPECT_EQ(taken.finished->reason, FinishReason::kError);
  EXPECT_EQ(taken.finished->error.code(), absl::StatusCode::kUnavailable);
  for (const auto& stream : {late, after}) {
    stream->TakeAll(taken);
    EXPECT_EQ(taken.rejected->code(), absl::StatusCode::kUnavailable);
  }
}

// --- Faults of the backend. ---

TEST(FaultTest, ARowThatFailsEndsItsGenerationAlone) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  bench.Run(Ask("hello", 3, session.key));
  Reader* unlucky = bench.Submit(Endless("abc", session.key));
  Reader* lucky = bench.Submit(Endless("xyz"));
  bench.Tick(3);
  bench.backend().FailNextRow(0, absl::InternalError("the logits are not finite"));
  bench.Tick();
  ASSERT_TRUE(unlucky->answer.finished.has_value());
  EXPECT_EQ(unlucky->answer.finished->reason, FinishReason::kError);
  EXPECT_EQ(unlucky->answer.finished->error.message(), "the logits are not finite");
  EXPECT_EQ(unlucky->answer.finished->turn, 1u);
  EXPECT_FALSE(lucky->answer.ended());
  EXPECT_EQ(bench.MemoryOf(session.key).charged_bytes, 0);
  EXPECT_EQ(bench.GetSession(session.key)->turn, 1u);
  EXPECT_TRUE(bench.Run(Ask("again", 3, session.key)).finished.has_value());
}

TEST(FaultTest, TheTextThatARowHeldBackIsNotLost) {
  EngineBench bench;
  bench.backend().set_script([](std::span<const TokenId>, TokenId) { return TokenId{'a'}; });
  Request request = Endless("xyz");
  request.stopping.stop = {"aaaaaaaa!"};
  Reader* unlucky = bench.Submit(request);
  bench.Tick(4);
  EXPECT_EQ(unlucky->answer.text, "");
  bench.backend().FailNextRow(0, absl::InternalError("the logits are not finite"));
  bench.Tick();
  ASSERT_EQ(unlucky->answer.finished->reason, FinishReason::kError);
  EXPECT_EQ(unlucky->answer.text, std::string(unlucky->answer.tokens.size(), 'a'));
  EXPECT_GT(unlucky->answer.tokens.size(), 0u);
}

TEST(FaultTest, AStepThatFailsEndsEverybodyInItAndTheEngineGoesOn) {
  for (const bool at_launch : {true, false}) {
    EngineBench bench;
    Reader* a = bench.Submit(Endless("abc"));
    Reader* b = bench.Submit(Endless("xyz"));
    bench.Tick(3);
    const absl::Status broken = absl::InternalError("the device is gone");
    at_launch ? bench.backend().FailNextLaunch(broken) : bench.backend().FailNextCollect(broken);
    bench.Tick();
    for (const Reader* reader : {a, b}) {
      ASSERT_TRUE(reader->answer.finished.has_value());
      EXPECT_EQ(reader->answer.finished->error, broken);
    }
    EXPECT_EQ(bench.snapshot().pool.charged_blocks, 0);
    EXPECT_TRUE(bench.Run(Ask("again", 3)).finished.has_value());
  }
}

TEST(FaultTest, ATokenOutsideTheVocabularyIsAFaultOfItsRow) {
  EngineBench bench;
  bench.backend().set_script([](std::span<const TokenId>, TokenId) { return 100'000; });
  const Answer answer = bench.Run(Endless("abc"));
  EXPECT_EQ(answer.finished->reason, FinishReason::kError);
  EXPECT_THAT(std::string(answer.finished->error.message()), HasSubstr("100000"));
}

}  // namespace
}  // namespace luna::engine
