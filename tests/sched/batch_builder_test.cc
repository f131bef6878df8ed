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

}  // namespace
}  // namespace luna::sched
