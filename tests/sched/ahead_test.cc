// The next step is planned while one is in flight, as long as everybody only goes on.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/rounds.h"
#include "tests/sched/sched_bench.h"

namespace luna::sched {
namespace {

TEST(AheadTest, ADecodeIsPlannedBeforeItsTokenIsKnown) {
  SchedBench bench(100);
  Sequence* sequence = bench.Add(4, 50);
  EXPECT_EQ(bench.Launch(), "1[0,4)+");
  EXPECT_EQ(bench.LaunchAhead(), "1[4]~");
  EXPECT_EQ(sequence->output_tokens(), 0);
  EXPECT_EQ(sequence->cache().pool.held_blocks(), 2);
  bench.Commit();
  EXPECT_EQ(sequence->cache().kv.computed_tokens(), 4);
  EXPECT_EQ(bench.LaunchAhead(), "1[5]~");
  bench.Commit();
  bench.Commit();
  EXPECT_EQ(sequence->output_tokens(), 3);
  EXPECT_EQ(sequence->cache().kv.computed_tokens(), 6);
  EXPECT_EQ(bench.Step(), "1[6]");  // with nothing in flight it is known
}

TEST(AheadTest, APromptsNextChunkGoesBesideDecodes) {
  SchedBench bench(100, {.max_batch_tokens = 8});
  bench.Add(4, 50);
  bench.Step();
  bench.Add(20, 50);
  EXPECT_EQ(bench.Launch(), "1[4] 2[0,7)");
  EXPECT_EQ(bench.LaunchAhead(), "1[5]~ 2[7,14)");
  bench.Commit();
  EXPECT_EQ(bench.LaunchAhead(), "1[6]~ 2[14,20)+");
  bench.Commit();
  EXPECT_EQ(bench.LaunchAhead(), "1[7]~ 2[20]~");
}

TEST(AheadTest, WhatIsCertainToBeTheLastTokenGetsNoRow) {
  SchedBench bench(100);
  bench.Add(4, 3);
  Sequence* longer = bench.Add(4, 4);
  bench.Launch();
  EXPECT_EQ(bench.LaunchAhead(), "1[4]~ 2[4]~");
  bench.Commit();
  EXPECT_EQ(bench.LaunchAhead(), "1[5]~ 2[5]~");
  bench.Commit();
  EXPECT_EQ(bench.LaunchAhead(), "2[6]~");
  bench.Commit();
  EXPECT_EQ(bench.LaunchAhead(), "");
  EXPECT_EQ(bench.scheduler.running(), std::vector<Sequence*>{longer});
  bench.Commit();
  EXPECT_TRUE(bench.scheduler.running().empty());
}

TEST(AheadTest, WhoStopsLeavesASuperfluousRowAndTheRoomForIt) {
  SchedBench bench(100);
  Sequence* stops = bench.Add(4, 50);
  Sequence* gone = bench.Add(5, 50);
  bench.Launch();
  bench.LaunchAhead();
  EXPECT_EQ(stops->cache().pool.held_blocks(), 2);
  bench.Remove(gone);
  EXPECT_EQ(bench.flights[0]->ToString(), "1[0,4)+ -[0,5)+");
  EXPECT_EQ(gone->cache().pool.held_blocks(), 0);
  bench.Commit(SchedBench::kStopId);
  EXPECT_EQ(bench.flights[0]->ToString(), "-[4]~ -[5]~");
  EXPECT_EQ(stops->cache().kv.computed_tokens(), 4);
  EXPECT_EQ(stops->cache().pool.held_blocks(), 1);
  EXPECT_EQ(bench.pool.free_blocks(), 99);
  bench.Commit();
  EXPECT_EQ(stops->output_tokens(), 1);
  EXPECT_EQ(stops->cache().kv.computed_tokens(), 4);
  EXPECT_EQ(stops->cache().served_tokens, 4u + 1u);
}

TEST(AheadTest, NotWhileSomebodyCouldComeIn) {
  SchedBench bench(100, {.max_batch_tokens = 64, .max_running = 2});
  bench.Add(4, 2);
  bench.Add(4, 50);
  Sequence* third = bench.Add(4, 50);
  bench.Launch();
  EXPECT_EQ(bench.LaunchAhead(), "1[4]~ 2[4]~");  // no place is free
  bench.Commit();
  EXPECT_EQ(bench.LaunchAhead(), "2[5]~");
  bench.Commit();  // and now one is
  EXPECT_EQ(bench.LaunchAhead(), "");
  bench.Commit();
  EXPECT_EQ(bench.Launch(), "2[6] 3[0,4)+");
  EXPECT_TRUE(third->schedule.running);
}

TEST(AheadTest, NotWhileSomebodyIsOwedAPlace) {
  SchedBench bench(100, {.max_batch_tokens = 64, .max_running = 2});
  for (int i = 0; i < 2; ++i) bench.Add(4, 50, 0, /*caller=*/1);
  bench.Launch();
  EXPECT_EQ(bench.LaunchAhead(), "1[4]~ 2[4]~");
  bench.Commit();
  bench.Add(4, 50, 0, /*caller=*/2);
  EXPECT_EQ(bench.LaunchAhead(), "");
  bench.Commit();
  EXPECT_EQ(bench.Launch(), "1[5] 3[0,4)+ preempted 2");
}

TEST(AheadTest, NotWhereSomebodyHasToLeaveForIt) {
  SchedBench bench(6);
  bench.Add(8, 20);
  bench.Add(8, 20);
  bench.Launch();
  for (int i = 0; i < 4; ++i) {
    EXPECT_NE(bench.LaunchAhead(), "");
    bench.Commit();
  }
  EXPECT_EQ(bench.LaunchAhead(), "");  // both would grow, and all six blocks are held
  bench.Commit();
  EXPECT_EQ(bench.Launch(), "1[12] preempted 2");
}

// The block that the first would grow into is one of those that the second's prompt was promised.
TEST(AheadTest, NotOutOfWhatAPromptIsStillOwed) {
  SchedBench bench(12, {.max_batch_tokens = 4});
  bench.Add(4, 50);
  bench.Step();
  Sequence* prompts = bench.Add(36, 1);
  bench.Launch();
  ASSERT_TRUE(prompts->schedule.running);
  while (!bench.LaunchAhead().empty()) bench.Commit();
  EXPECT_EQ(bench.pool.free_blocks(), 3);  // as many as the second still needs
  bench.Commit();
  EXPECT_THAT(bench.Launch(), testing::HasSubstr("preempted 2"));
}

TEST(AheadTest, IdleCachesGiveWayToIt) {
  SchedBench bench(5);
  Sequence* silent = bench.Add(12, 1);
  bench.Step();
  EXPECT_EQ(silent->cache().pool.held_blocks(), 3);
  bench.Add(8, 20);
  bench.Launch();
  EXPECT_EQ(bench.LaunchAhead(), "2[8]~");
  EXPECT_EQ(silent->cache().pool.held_blocks(), 2);
}

TEST(AheadTest, NeverWithoutACache) {
  SchedBench bench(100, {.keep_kv = false});
  bench.Add(4, 50);
  bench.Launch();
  EXPECT_EQ(bench.LaunchAhead(), "");
}

// A window of five tokens is two blocks of four, and what the step in flight leaves behind is a
// third one as long as it is not committed.
TEST(AheadTest, WhatAWindowHasNotLeftBehindYetIsNotPaidFor) {
  for (const bool spare : {false, true}) {
    SchedBench bench(spare ? 3 : 2, {}, {5});
    Sequence* sequence = bench.Add(4, 50);
    bench.Launch();
    int alone = 0;
    for (int i = 0; i < 30; ++i) {
      const bool ahead = !bench.LaunchAhead().empty();
      bench.Commit();
      if (ahead) continue;
      ++alone;
      bench.Launch();
    }
    EXPECT_GE(sequence->output_tokens(), 30);
    EXPECT_EQ(alone > 0, !spare);
    EXPECT_EQ(sequence->schedule.preemptions, 0u);
  }
}

TEST(AheadTest, WhoWasInAFailedStepIsNotInTheNext) {
  SchedBench bench(100, {.max_batch_tokens = 8});
  Sequence* first = bench.Add(4, 50);
  bench.Step();
  Sequence* second = bench.Add(3, 50);
  Sequence* third = bench.Add(4, 50);
  Sequence* fourth = bench.Add(9, 50);
  EXPECT_EQ(bench.Launch(), "1[4] 2[0,3)+ 3[0,4)+");
  EXPECT_EQ(bench.LaunchAhead(), "1[5]~ 2[3]~ 3[4]~ 4[0,5)");
  bench.scheduler.Abandon();
  for (Sequence* sequence : {first, second, third}) bench.Remove(sequence);
  bench.flights.erase(bench.flights.begin());
  EXPECT_EQ(bench.flights[0]->ToString(), "-[5]~ -[3]~ -[4]~ 4[0,5)");
  EXPECT_EQ(bench.LaunchAhead(), "4[5,9)+");
  bench.Commit();
  EXPECT_EQ(fourth->cache().kv.computed_tokens(), 5);
  bench.Commit();
  EXPECT_EQ(fourth->output_tokens(), 1);
}

std::vector<Sequence*> Decodes(const Scheduler& scheduler) {
  std::vector<Sequence*> decodes;
  for (Sequence* sequence : scheduler.running()) {
    if (sequence->remaining_tokens() == 1) decodes.push_back(sequence);
  }
  return decodes;
}

bool HasAll(const StepPlan& plan, const std::vector<Sequence*>& sequences) {
  return std::ranges::all_of(sequences, [&](const Sequence* sequence) {
    return std::ranges::count(plan.rows, sequence, &StepPlan::Row::sequence) == 1;
  });
}

// A random crowd that comes, stops, and is called off, with plans ahead wherever they can be made:
// every row begins where its cache ends, nobody who decodes is left out, everybody gets on, and
// nothing is kept from others in the end.
TEST(AheadTest, EveryRowBeginsWhereItsCacheEnds) {
  int ahead = 0, not_ahead = 0;
  for (uint32_t seed = 0; seed < NumSeeds(30); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<int> windows = seed % 3 == 0   ? std::vector<int>{0, 9}
                                     : seed % 3 == 1 ? std::vector<int>{5}
                                                     : std::vector<int>{0};
    SchedBench bench(seed % 3 == 1 ? 15 : 40,
                     {.max_batch_tokens = 4 + static_cast<int>(random() % 30)}, windows);
    size_t added = 0;
    const auto work = [&bench] {
      return !bench.scheduler.running().empty() || !bench.scheduler.waiting().empty() ||
             !bench.flights.empty();
    };
    for (int step = 0; step < 600 || work(); ++step) {
      ASSERT_LT(step, 10'000);
      if (bench.flights.empty()) {
        for (uint32_t i = random() % 8; step < 600 && i > 0; --i) {
          if (++added > 80) break;
          bench.Add(1 + random() % 30, 1 + random() % 30, random() % 3, random() % 4);
        }
        bench.Launch();
      }
      if (!bench.flights.empty() && random() % 8 != 0) {
        const std::vector<Sequence*> decodes = Decodes(bench.scheduler);
        const bool is_ahead = !bench.LaunchAhead().empty();
        ++(is_ahead ? ahead : not_ahead);
        EXPECT_TRUE(!is_ahead || HasAll(*bench.flights.back(), decodes));
      }
      if (random() % 30 == 0 && !bench.scheduler.running().empty()) {
        bench.Remove(bench.scheduler.running()[random() % bench.scheduler.running().size()]);
      }
      if (!bench.flights.empty()) {
        for (const StepPlan::Row& row : bench.flights[0]->rows) {
          if (row.sequence == nullptr) continue;
          EXPECT_EQ(row.first, row.sequence->cache().kv.computed_tokens());
          EXPECT_LE(row.first + row.num_tokens, row.sequence->num_tokens());
        }
      }
      bench.Commit(random() % 40 == 0 ? SchedBench::kStopId : 'x');
    }
    EXPECT_EQ(bench.pool.unprotected_blocks(), bench.pool.charged_blocks());
  }
  EXPECT_GT(ahead, not_ahead);
}

}  // namespace
}  // namespace luna::sched
