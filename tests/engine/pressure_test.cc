// What happens when the pool is too small for everybody, and who waits for whom.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::EngineBench;
using fakes::Reader;

Request Long(int prompt_tokens, int64_t max_tokens, std::string session = "") {
  Request request = Ask(std::string(prompt_tokens, 't'), max_tokens, std::move(session));
  request.stopping.ignore_eos = true;
  return request;
}

// Everybody says the same here, and nobody shares it.
EngineBench::Options Unshared(int num_blocks) {
  EngineBench::Options options;
  options.num_blocks = num_blocks;
  options.engine.prefix_sharing = PrefixSharing::kSession;
  return options;
}

TEST(PressureTest, TheLeastRecentlyUsedIdleCacheGivesWayTailFirst) {
  EngineBench bench(Unshared(30));
  const SessionInfo old = *bench.CreateSession(), recent = *bench.CreateSession();
  bench.Run(Long(38, 3, old.key));  // 40 computed tokens, 10 blocks
  bench.Run(Long(38, 3, recent.key));
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 20);
  bench.Run(Long(47, 2));  // 12 blocks: two more than there are
  const SessionMemory after = bench.MemoryOf(old.key);
  EXPECT_EQ(after.charged_bytes, 8 * bench.block_bytes());
  EXPECT_EQ(after.used_bytes, 32 * bench.layout().token_bytes());
  EXPECT_EQ(after.evictions, 1u);
  EXPECT_EQ(bench.MemoryOf(recent.key).evictions, 0u);
  EXPECT_EQ(bench.snapshot().load.preemptions, 0u);
  // What is left of it is still used, and the rest is computed again.
  const Answer answer = bench.Run(Long(1, 1, old.key));
  EXPECT_EQ(answer.finished->usage.cached_tokens, 32u);
  EXPECT_EQ(bench.MemoryOf(old.key).recomputed_tokens, 8u);
}

TEST(PressureTest, IdleCachesGoBeforeAnybodyIsPreempted) {
  EngineBench bench(Unshared(40));
  std::vector<SessionInfo> idle;
  for (int i = 0; i < 3; ++i) {
    idle.push_back(*bench.CreateSession());
    bench.Run(Long(38, 3, idle.back().key));
  }
  Reader* a = bench.Submit(Long(20, 50));
  Reader* b = bench.Submit(Long(20, 50));
  bench.RunToEnd();
  EXPECT_EQ(a->answer.finished->usage.preemptions + b->answer.finished->usage.preemptions, 0u);
  EXPECT_GE(bench.MemoryOf(idle[0].key).evictions, 1u);
}

TEST(PressureTest, TheNewestLeavesAndComesBackAndTheOldestIsNeverPreempted) {
  EngineBench bench(Unshared(24));
  std::vector<Reader*> readers;
  for (int i = 0; i < 4; ++i) readers.push_back(bench.Submit(Long(12, 60)));
  bench.RunToEnd();
  EXPECT_EQ(readers[0]->answer.finished->usage.preemptions, 0u);
  EXPECT_GT(bench.snapshot().load.preemptions, 0u);
  for (const Reader* reader : readers) EXPECT_EQ(reader->answer.tokens.size(), 60u);
  // They end in the order in which they came.
  for (int i = 1; i < 4; ++i) {
    EXPECT_GE(readers[i]->answer.finished->usage.total_ms,
              readers[i - 1]->answer.finished->usage.total_ms);
  }
}

TEST(PressureTest, TheLowestPriorityLeavesFirst) {
  EngineBench bench(Unshared(16));
  Request humble = Long(12, 40);
  humble.priority = -1;
  Reader* low = bench.Submit(humble);
  Reader* high = bench.Submit(Long(12, 40));
  bench.RunToEnd();
  EXPECT_GT(low->answer.finished->usage.preemptions, 0u);
  EXPECT_EQ(high->answer.finished->usage.preemptions, 0u);
}

TEST(PressureTest, PreemptionsAreRareBecauseNewcomersWaitForRoom) {
  EngineBench bench(Unshared(100));
  std::vector<Reader*> readers;
  for (int i = 0; i < 60; ++i) readers.push_back(bench.Submit(Long(20, 40)));
  bench.RunToEnd();
  // Without a rule against thrashing everybody would leave again and again.
  EXPECT_LT(bench.snapshot().load.preemptions, 60u);
  for (const Reader* reader : readers) {
    EXPECT_EQ(reader->answer.tokens.size(), 40u);
    EXPECT_LE(reader->answer.finished->usage.preemptions, 4u);
  }
}

// l#29175: one long prefill stopped everybody.
TEST(FairnessTest, ALongPromptDelaysNobodyByMoreThanATick) {
  EngineBench::Options options;
  options.context_length = 1000;
  options.num_blocks = 3000;
  options.engine.max_batch_tokens = 64;
  EngineBench bench(options);
  std::vector<Reader*> readers;
  for (int i = 0; i < 20; ++i) readers.push_back(bench.Submit(Long(10, 60)));
  bench.Tick(10);
  Reader* pasted = bench.Submit(Long(900, 5));
  bench.RunToEnd();
  for (const Reader* reader : readers) EXPECT_EQ(reader->answer.max_gap, 1);
  EXPECT_EQ(pasted->answer.tokens.size(), 5u);
  EXPECT_LE(bench.backend().largest_step(), 64);
}

TEST(FairnessTest, AShortPromptPassesAnyNumberOfLongOnes) {
  EngineBench::Options options;
  options.context_length = 1000;
  options.num_blocks = 6000;
  options.engine.max_batch_tokens = 64;
  EngineBench bench(options);
  std::vector<Reader*> pasted;
  for (int i = 0; i < 5; ++i) pasted.push_back(bench.Submit(Long(800, 2)));
  bench.Tick(3);
  Reader* asked = bench.Submit(Long(20, 1));
  bench.Tick(2);
  EXPECT_EQ(asked->answer.tokens.size(), 1u);
  bench.RunToEnd();
  EXPECT_LT(pasted[0]->answer.finished->usage.ttft_ms, 800 / 30.0 + 10);
}

TEST(FairnessTest, ALongPromptIsNotStarvedByAFloodOfShortOnes) {
  EngineBench::Options options;
  options.context_length = 1000;
  options.num_blocks = 3000;
  options.engine.max_batch_tokens = 64;
  EngineBench bench(options);
  Reader* pasted = bench.Submit(Long(640, 2));
  for (int i = 0; i < 60 && !pasted->answer.ended(); ++i) {
    for (int k = 0; k < 4; ++k) bench.Submit(Long(30, 1));
    bench.Tick();
  }
  ASSERT_TRUE(pasted->answer.finished.has_value());
  EXPECT_LE(pasted->answer.finished->usage.ttft_ms, 22);  // half of the budget is its own
}

TEST(FairnessTest, DecodesDoNotStarvePrompts) {
  EngineBench::Options options;
  options.engine.max_batch_tokens = 16;
  options.num_blocks = 400;
  EngineBench bench(options);
  for (int i = 0; i < 30; ++i) bench.Submit(Long(4, 40));
  bench.Tick(20);
  EXPECT_EQ(bench.snapshot().load.running, 8u);  // half of the budget
  bench.RunToEnd();
}

TEST(FairnessTest, AGreedyCallersQueueDoesNotStandBeforeAnothersFirstRequest) {
  EngineBench::Options options;
  options.engine.max_running = 2;
  EngineBench bench(options);
  std::vector<Reader*> greedy;
  for (int i = 0; i < 30; ++i) greedy.push_back(bench.Submit(Long(4, 10)));
  Request other = Long(4, 10);
  other.caller = "another student";
  bench.Tick();
  Reader* student = bench.Submit(other);
  bench.Tick();
  EXPECT_LE(student->answer.accepted->queue_position, 2u);
  bench.RunToEnd();
  EXPECT_LT(student->answer.finished->usage.total_ms, greedy[6]->answer.finished->usage.total_ms);
}

Request From(const std::string& caller, Request request) {
  request.caller = caller;
  return request;
}

// s#31954: a hot flood starved a cold request. However many sessions it has, whether they fill the
// places or the pool.
TEST(FairnessTest, AColdRequestComesInWithinTwoTicksOfAFlood) {
  for (const bool pool_is_full : {false, true}) {
    EngineBench::Options options = Unshared(pool_is_full ? 80 : 2000);
    options.engine.max_running = pool_is_full ? 64 : 6;
    EngineBench bench(options);
    std::vector<Reader*> flood;
    for (int i = 0; i < 60; ++i) flood.push_back(bench.Submit(From("flood", Long(20, 60))));
    bench.Tick(8);
    ASSERT_GT(bench.snapshot().load.waiting, 40u);
    Reader* cold = bench.Submit(From("cold", Long(20, 5)));
    bench.Tick(3);
    EXPECT_FALSE(cold->answer.tokens.empty()) << "pool is full: " << pool_is_full;
    bench.RunToEnd();
    EXPECT_EQ(cold->answer.finished->usage.preemptions, 0u);
    for (const Reader* reader : flood) EXPECT_EQ(reader->answer.tokens.size(), 60u);
  }
}

// Three callers have a place each, and a fourth waits: for a slice, not for the end of an answer.
TEST(FairnessTest, WherePlacesAreEvenOneChangesHandsAfterASlice) {
  EngineBench::Options options = Unshared(2000);
  options.context_length = 600;
  options.engine.max_running = 3;
  options.engine.max_batch_tokens = 32;
  EngineBench bench(options);
  std::vector<Reader*> readers;
  for (const char* caller : {"a", "b", "c", "d"}) {
    readers.push_back(bench.Submit(From(caller, Long(4, 500))));
  }
  int ticks = 0;
  while (readers[3]->answer.tokens.empty() && ticks < 100) bench.Tick(), ++ticks;
  EXPECT_LE(ticks, 32 + 4);
  bench.Tick(400);
  // In turns ever since.
  for (const Reader* reader : readers) {
    EXPECT_GT(reader->answer.tokens.size(), 250u);
    EXPECT_LT(reader->answer.tokens.size(), 400u);
  }
  bench.RunToEnd();
}

TEST(FairnessTest, OfOneCallersSessionsNoneWaitsForTheEndOfAnothersAnswer) {
  EngineBench::Options options = Unshared(2000);
  options.context_length = 600;
  options.engine.max_running = 2;
  options.engine.max_batch_tokens = 32;
  EngineBench bench(options);
  std::vector<Reader*> readers;
  for (int i = 0; i < 4; ++i) readers.push_back(bench.Submit(Long(4, 300)));
  bench.Tick(150);
  for (const Reader* reader : readers) EXPECT_GT(reader->answer.tokens.size(), 40u);
  bench.RunToEnd();
}

// A prompt of many slices counts as given when it comes in; that is no debt before it has spoken.
TEST(FairnessTest, ALongPromptKeepsThePlaceItWasGiven) {
  EngineBench::Options options = Unshared(2000);
  options.context_length = 1000;
  options.engine.max_running = 1;
  options.engine.max_batch_tokens = 32;
  EngineBench bench(options);
  bench.Submit(From("a", Long(4, 900)));
  bench.Tick(5);
  const Reader* reader = bench.Submit(From("b", Long(200, 5)));
  bench.Tick(60);
  EXPECT_FALSE(reader->answer.tokens.empty());
  bench.RunToEnd();
}

TEST(FairnessTest, HigherPriorityIsAdmittedFirst) {
  EngineBench::Options options;
  options.engine.max_running = 1;
  EngineBench bench(options);
  bench.Submit(Long(4, 5));
  bench.Tick();
  Reader* normal = bench.Submit(Long(4, 5));
  Request urgent = Long(4, 5);
  urgent.priority = 10;
  Reader* first = bench.Submit(urgent);
  bench.RunToEnd();
  EXPECT_LT(first->answer.finished->usage.queue_ms, normal->answer.finished->usage.queue_ms);
}

TEST(FairnessTest, WithoutACacheEverybodyGetsOn) {
  EngineBench::Options options;
  options.engine.keep_kv = false;
  options.engine.max_batch_tokens = 64;
  EngineBench bench(options);
  Reader* longest = bench.Submit(Long(100, 6));
  std::vector<Reader*> readers;
  for (int i = 0; i < 10; ++i) readers.push_back(bench.Submit(Long(10, 20)));
  bench.RunToEnd();
  EXPECT_LE(longest->answer.max_gap, 40);
  for (const Reader* reader : readers) EXPECT_LE(reader->answer.max_gap, 12);
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 0);
}

}  // namespace
}  // namespace luna::engine
