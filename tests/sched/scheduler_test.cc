#include "core/sched/scheduler.h"

#include <random>
#include <string>
#include <vector>

#include "core/base/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/rounds.h"
#include "tests/sched/sched_bench.h"

namespace luna::sched {
namespace {

using testing::HasSubstr;

TEST(SchedulerTest, DecodesComeFirstThenChunksUnderTheBudget) {
  SchedBench bench(1000, {.max_batch_tokens = 16});
  bench.Add(4, 50);  // 1
  EXPECT_EQ(bench.Step(), "1[0,4)+");
  bench.Add(40, 50);  // 2
  EXPECT_EQ(bench.Step(), "1[4] 2[0,15)");
  EXPECT_EQ(bench.Step(), "1[5] 2[15,30)");
  EXPECT_EQ(bench.Step(), "1[6] 2[30,40)+");
  EXPECT_EQ(bench.Step(), "1[7] 2[40]");
}

TEST(SchedulerTest, HalfOfTheBudgetIsTheLongestWaitingsTheRestTheShortests) {
  SchedBench bench(1000, {.max_batch_tokens = 20});
  bench.Add(100, 5);
  bench.Add(50, 5);
  bench.Add(6, 5);
  EXPECT_EQ(bench.Step(), "3[0,6)+ 2[0,4) 1[0,10)");
  EXPECT_EQ(bench.Step(), "3[6] 2[4,13) 1[10,20)");
}

TEST(SchedulerTest, PromptsOfOneLengthAreServedInOrder) {
  SchedBench bench(1000, {.max_batch_tokens = 20});
  for (int i = 0; i < 3; ++i) bench.Add(20, 5);
  EXPECT_EQ(bench.Step(), "1[0,20)+");
  EXPECT_EQ(bench.Step(), "1[20] 2[0,19)");
  EXPECT_EQ(bench.Step(), "1[21] 2[19] 3[0,18)");
}

TEST(SchedulerTest, RunningSequencesAreAtMostHalfOfTheBudget) {
  SchedBench bench(1000, {.max_batch_tokens = 6});
  for (int i = 0; i < 5; ++i) bench.Add(2, 50);
  EXPECT_EQ(bench.scheduler.running().size(), 3u);
  EXPECT_EQ(bench.scheduler.waiting().size(), 2u);
}

TEST(SchedulerTest, PlacesAreSharedOutAmongCallers) {
  SchedBench bench(1000, {.max_batch_tokens = 64, .max_running = 4});
  std::vector<Sequence*> greedy;
  for (int i = 0; i < 6; ++i) greedy.push_back(bench.Add(2, 500, 0, /*caller=*/1));
  bench.Step();
  EXPECT_EQ(bench.scheduler.running().size(), 4u);
  // Another's first two take the places of the newest; a third would have more than the greedy one.
  std::vector<Sequence*> other;
  for (int i = 0; i < 3; ++i) other.push_back(bench.Add(2, 500, 0, /*caller=*/2));
  bench.Step();
  bench.Step();
  bench.Step();
  EXPECT_TRUE(other[0]->schedule.running && other[1]->schedule.running);
  EXPECT_FALSE(other[2]->schedule.running);
  EXPECT_TRUE(greedy[0]->schedule.running && greedy[1]->schedule.running);
  EXPECT_EQ(greedy[3]->schedule.preemptions, 1u);
  // And so it stays.
  for (int i = 0; i < 10; ++i) bench.Step();
  EXPECT_EQ(bench.scheduler.preemptions(), 2u);
  EXPECT_EQ(other[0]->output_tokens(), 12);
}

TEST(SchedulerTest, ABudgetOfOneTokenStillServesEverybodyInTurn) {
  SchedBench bench(1000, {.max_batch_tokens = 1});
  Sequence* first = bench.Add(3, 2);
  Sequence* second = bench.Add(3, 2);
  for (int i = 0; i < 8; ++i) bench.Step();
  EXPECT_EQ(first->output_tokens(), 2);
  EXPECT_EQ(second->output_tokens(), 2);
}

TEST(SchedulerTest, ASequenceIsAdmittedOnlyIfItsWholePromptIsPaidFor) {
  SchedBench bench(10, {.max_batch_tokens = 8});
  bench.Add(20, 1);                     // 5 blocks, of which one chunk takes 2
  Sequence* second = bench.Add(24, 1);  // 6 blocks
  bench.Step();
  EXPECT_FALSE(second->schedule.running);
  EXPECT_EQ(bench.pool.free_blocks(), 8);
  bench.Step();
  bench.Step();  // the first ends; what it held is idle
  bench.Step();
  EXPECT_TRUE(second->schedule.running);
}

TEST(SchedulerTest, NobodyOvertakesInLine) {
  SchedBench bench(10);
  bench.Add(20, 20);
  Sequence* large = bench.Add(30, 5);
  Sequence* small = bench.Add(4, 5);
  bench.Step();
  EXPECT_FALSE(large->schedule.running);
  EXPECT_FALSE(small->schedule.running);
  EXPECT_EQ(bench.scheduler.QueuePosition(large), 1u);
  EXPECT_EQ(bench.scheduler.QueuePosition(small), 2u);
}

TEST(SchedulerTest, TheNewestIsPreemptedWhenSomebodyGrows) {
  SchedBench bench(6);
  Sequence* first = bench.Add(8, 20);
  Sequence* second = bench.Add(8, 20);
  EXPECT_EQ(bench.Step(), "1[0,8)+ 2[0,8)+");
  for (int i = 0; i < 4; ++i) bench.Step();
  EXPECT_EQ(bench.Step(), "1[12] preempted 2");
  EXPECT_EQ(second->output_tokens(), 5);
  EXPECT_EQ(second->cache().pool.held_blocks(), 2);  // only what was needed was taken
  EXPECT_EQ(first->schedule.preemptions, 0u);
}

TEST(SchedulerTest, WhoWasPreemptedComesBackBeforeThoseWhoCameLater) {
  SchedBench bench(6);
  bench.Add(8, 8);
  Sequence* second = bench.Add(8, 8);
  for (int i = 0; i < 6; ++i) bench.Step();
  ASSERT_EQ(second->schedule.preemptions, 1u);
  Sequence* third = bench.Add(4, 8);
  EXPECT_EQ(bench.scheduler.QueuePosition(second), 1u);
  EXPECT_EQ(bench.scheduler.QueuePosition(third), 2u);
}

// A random crowd: nobody is preempted twice without a token between, nobody is starved, and every
// step computes something.
TEST(SchedulerTest, NobodyIsPreemptedTwiceWithoutATokenBetween) {
  for (uint32_t seed = 0; seed < NumSeeds(30); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<int> windows = seed % 3 == 0 ? std::vector<int>{0, 9} : std::vector<int>{0};
    SchedBench bench(40, {.max_batch_tokens = 4 + static_cast<int>(random() % 30)}, windows);
    std::vector<Sequence*> sequences;
    std::vector<int> tokens_at_preemption;
    for (int step = 0; step < 600; ++step) {
      if (sequences.size() < 25 && random() % 4 == 0) {
        sequences.push_back(
            bench.Add(1 + random() % 30, 1 + random() % 30, random() % 3, random() % 4));
        tokens_at_preemption.push_back(-1);
      }
      const StepPlan& plan = bench.scheduler.Plan();
      EXPECT_TRUE(plan.failed.empty());
      for (const Sequence* preempted : plan.preempted) {
        for (size_t i = 0; i < sequences.size(); ++i) {
          if (sequences[i] != preempted) continue;
          EXPECT_GT(preempted->output_tokens(), tokens_at_preemption[i]);
          tokens_at_preemption[i] = preempted->output_tokens();
        }
      }
      const bool anybody = !bench.scheduler.running().empty() || !bench.scheduler.waiting().empty();
      EXPECT_EQ(plan.rows.empty(), !anybody);
      batch::StepResult result;
      for (const StepPlan::Row& row : plan.rows) {
        if (row.samples)
          result.samples.push_back({.status = {}, .token = 'x', .logprob = 0, .top = {}});
      }
      for (const Outcome& outcome : bench.scheduler.Commit(result)) {
        if (outcome.ending.ended()) bench.Forget(outcome.sequence);
      }
    }
    for (int step = 0; step < 3000 && !bench.scheduler.running().empty(); ++step) bench.Step();
    for (const Sequence* sequence : sequences) {
      EXPECT_EQ(sequence->output_tokens(), sequence->stopping().max_tokens);
    }
  }
}

// Blocks that are held by nobody whom the scheduler knows: it must say so, not wait for ever.
TEST(SchedulerTest, WhenNothingRunsAndNothingCanTheOldestFails) {
  SchedBench bench(10);
  kv::SessionPool foreign(&bench.pool, 10);
  std::vector<BlockId> held;
  for (int i = 0; i < 8; ++i) {
    held.push_back(*foreign.Take());
    bench.pool.Protect(held.back());
  }
  Sequence* oldest = bench.Add(20, 5);
  bench.Add(20, 5);
  const StepPlan& plan = bench.scheduler.Plan();
  ASSERT_EQ(plan.failed.size(), 1u);
  EXPECT_EQ(plan.failed[0].sequence, oldest);
  EXPECT_EQ(plan.failed[0].status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterOf(plan.failed[0].status).has_value());
  EXPECT_THAT(std::string(plan.failed[0].status.message()),
              HasSubstr("it needs 5 more blocks; 2 of 10 can be had"));
  EXPECT_THAT(plan.ToString(), HasSubstr("failed 1"));
  for (const BlockId id : held) {
    bench.pool.Unprotect(id);
    foreign.GiveBack(id);
  }
}

TEST(SchedulerTest, WithoutACacheNothingIsHeldBetweenTokens) {
  SchedBench bench(100, {.max_batch_tokens = 8, .keep_kv = false});
  Sequence* sequence = bench.Add(12, 2);
  EXPECT_EQ(bench.Step(), "1[0,8)");
  EXPECT_EQ(sequence->cache().pool.held_blocks(), 2);
  EXPECT_EQ(bench.Step(), "1[8,12)+");
  EXPECT_EQ(bench.pool.free_blocks(), 100);
  EXPECT_EQ(bench.Step(), "1[0,8)");
  EXPECT_EQ(bench.Step(), "1[8,13)+");
  EXPECT_EQ(sequence->cache().recomputed_tokens, 12u);
}

TEST(SchedulerTest, AFailedRowEndsItsSequence) {
  SchedBench bench(100);
  Sequence* sequence = bench.Add(4, 5);
  bench.scheduler.Plan();
  batch::StepResult result;
  result.samples.push_back(
      {.status = absl::InternalError("broken"), .token = 0, .logprob = 0, .top = {}});
  const auto& outcomes = bench.scheduler.Commit(result);
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].sampled, nullptr);
  EXPECT_EQ(outcomes[0].ending.kind, Ending::Kind::kError);
  EXPECT_EQ(outcomes[0].ending.error.message(), "broken");
  EXPECT_EQ(sequence->output_tokens(), 0);
  EXPECT_TRUE(bench.scheduler.running().empty());
  bench.Forget(sequence);
}

}  // namespace
}  // namespace luna::sched
