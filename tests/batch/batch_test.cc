#include "core/batch/batch.h"

#include "core/kv/sequence_kv.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::batch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Batch TwoSequencesInTwoGroups() {
  Batch batch;
  batch.token_ids = {7, 8, 9};
  batch.positions = {4, 0, 1};
  batch.sequence_starts = {0, 1, 3};
  batch.context_lengths = {5, 2};
  batch.block_tables = {10, 11, 20, kv::kNoBlock, 31, 40};
  batch.block_table_starts = {0, 2, 3, 5, 6};
  return batch;
}

TEST(BatchTest, TablesAreFoundByGroupAndSequence) {
  const Batch batch = TwoSequencesInTwoGroups();
  EXPECT_EQ(batch.num_tokens(), 3);
  EXPECT_EQ(batch.num_sequences(), 2);
  EXPECT_THAT(batch.block_table(0, 0), ElementsAre(10, 11));
  EXPECT_THAT(batch.block_table(0, 1), ElementsAre(20));
  EXPECT_THAT(batch.block_table(1, 0), ElementsAre(kv::kNoBlock, 31));
  EXPECT_THAT(batch.block_table(1, 1), ElementsAre(40));
}

TEST(BatchTest, ATokenThatIsNotKnownYetIsNoToken) {
  for (const int sample : {0, 1, 255}) {
    EXPECT_TRUE(IsPending(PendingToken(sample)));
    EXPECT_EQ(PendingSample(PendingToken(sample)), sample);
  }
  EXPECT_FALSE(IsPending(0));
  EXPECT_FALSE(IsPending(262'143));
}

TEST(BatchTest, ClearKeepsTheRoom) {
  Batch batch = TwoSequencesInTwoGroups();
  const size_t room = batch.block_tables.capacity();
  batch.Clear();
  EXPECT_EQ(batch.num_tokens(), 0);
  EXPECT_EQ(batch.num_sequences(), 0);
  EXPECT_THAT(batch.samples, IsEmpty());
  EXPECT_THAT(batch.block_table_starts, IsEmpty());
  EXPECT_EQ(batch.block_tables.capacity(), room);
}

}  // namespace
}  // namespace luna::batch
