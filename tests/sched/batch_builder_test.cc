#include "core/sched/batch_builder.h"

#include <vector>

#include "core/kv/sequence_kv.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sched/sched_bench.h"

namespace luna::sched {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;

TEST(BatchBuilderTest, RowsAndTablesOfAMixedStep) {
  SchedBench bench(100, {.max_batch_tokens = 8}, {0, 6});
  Sequence* decoding = bench.Add(7, 20);
  bench.Step();
  for (int i = 0; i < 4; ++i) bench.Step();
  Sequence* prompting = bench.Add(30, 5);
  const StepPlan& plan = bench.scheduler.Plan();
  batch::Batch batch;
  BuildBatch(plan, bench.layout, 42, batch);

  EXPECT_EQ(batch.step, 42u);
  EXPECT_THAT(batch.token_ids, ElementsAreArray({'x', 'p', 'p', 'p', 'p', 'p', 'p', 'p'}));
  EXPECT_THAT(batch.positions, ElementsAre(11, 0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(batch.sequence_starts, ElementsAre(0, 1, 8));
  EXPECT_THAT(batch.context_lengths, ElementsAre(12, 7));
  EXPECT_THAT(batch.block_table(0, 0), ElementsAreArray(decoding->cache().kv.table(0)));
  EXPECT_THAT(batch.block_table(1, 0), ElementsAreArray(decoding->cache().kv.table(1)));
  EXPECT_EQ(batch.block_table(1, 0)[0], kv::kNoBlock);  // position 11 sees 6..11
  EXPECT_THAT(batch.block_table(1, 1), ElementsAreArray(prompting->cache().kv.table(1)));
  ASSERT_EQ(batch.samples.size(), 1u);  // the chunk is not its prompt's last
  EXPECT_EQ(batch.samples[0].row, 0);
  EXPECT_EQ(batch.samples[0].position, 12u);
  EXPECT_EQ(batch.samples[0].prompt.size(), 7u);
  EXPECT_THAT(batch.samples[0].output, Each('x'));
}

// The step before chose for three sequences, of which the second has said all it may.
TEST(BatchBuilderTest, ATokenThatIsNotKnownYetStandsAsTheSampleThatChoosesIt) {
  SchedBench bench(100, {.max_batch_tokens = 30});
  bench.Add(7, 20);
  bench.Add(3, 1);
  Sequence* third = bench.Add(5, 20, /*priority=*/0, /*caller=*/0, /*min_tokens=*/2);
  EXPECT_EQ(bench.Launch(), "1[0,7)+ 2[0,3)+ 3[0,5)+");
  const StepPlan* plan = bench.scheduler.PlanAhead();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->ToString(), "1[7]~ 3[5]~");
  batch::Batch batch;
  BuildBatch(*plan, bench.layout, 43, batch);

  EXPECT_THAT(batch.token_ids, ElementsAre(batch::PendingToken(0), batch::PendingToken(2)));
  EXPECT_THAT(batch.positions, ElementsAre(7, 5));
  EXPECT_THAT(batch.context_lengths, ElementsAre(8, 6));
  EXPECT_EQ(batch.block_table(0, 1).size(), 2u);
  ASSERT_EQ(batch.samples.size(), 2u);
  const sample::SampleSpec& spec = batch.samples[1];
  EXPECT_EQ(spec.row, 1);
  EXPECT_EQ(spec.pending, 2);
  EXPECT_EQ(spec.position, 6u);
  EXPECT_EQ(spec.prompt.size(), 5u);
  EXPECT_TRUE(spec.output.empty());
  EXPECT_FALSE(spec.masked.empty());  // it would be the first of at least two that ends it
  EXPECT_TRUE(batch.samples[0].masked.empty());

  bench.Commit();
  const sample::SampleSpec next = third->Sample(0, /*pending=*/1);
  EXPECT_EQ(next.position, 7u);
  EXPECT_EQ(next.output.size(), 1u);
  EXPECT_TRUE(next.masked.empty());
}

}  // namespace
}  // namespace luna::sched
