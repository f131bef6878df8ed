#include "core/kv/block_pool.h"

#include <set>

#include "core/kv/session_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BlockPoolTest, TakeFailsWhenEmpty) {
  BlockPool pool(2);
  EXPECT_TRUE(pool.Take().has_value());
  EXPECT_TRUE(pool.Take().has_value());
  EXPECT_FALSE(pool.Take().has_value());
  EXPECT_EQ(pool.charged_blocks(), 2);
  EXPECT_EQ(pool.free_blocks(), 0);
}

TEST(BlockPoolTest, EveryIdIsHandedOutOnce) {
  BlockPool pool(100);
  std::set<BlockId> ids;
  while (const auto id = pool.Take()) ids.insert(*id);
  EXPECT_EQ(ids.size(), 100u);
  EXPECT_EQ(ids.begin()->value(), 0);
  EXPECT_EQ(ids.rbegin()->value(), 99);
}

TEST(BlockPoolTest, ASharedBlockIsFreeAfterItsLastHolder) {
  BlockPool pool(1);
  const BlockId id = *pool.Take();
  pool.AddHolder(id);
  pool.Release(id);
  EXPECT_EQ(pool.holders(id), 1);
  EXPECT_EQ(pool.charged_blocks(), 1);
  pool.Release(id);
  EXPECT_EQ(pool.free_blocks(), 1);
  EXPECT_EQ(pool.peak_charged_blocks(), 1);
}

TEST(BlockPoolTest, TheInvariantsNameABlockThatIsInNoTable) {
  BlockPool pool(3);
  const BlockId id = *pool.Take();
  std::vector<std::string> differences;
  std::vector<int32_t> held(3, 0);
  held[id.value()] = 1;
  pool.CheckInvariants(held, differences);
  EXPECT_THAT(differences, IsEmpty());
  held[id.value()] = 0;
  pool.CheckInvariants(held, differences);
  EXPECT_THAT(differences, ElementsAre("block 0 counts 1 holders; it is in 0 tables"));
}

TEST(BlockPoolDeathTest, ReleasingAFreeBlockIsAFaultOfOurOwn) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.Release(BlockId(0)), "held by nobody");
}

TEST(SessionPoolTest, TheQuotaBoundsWhatItHolds) {
  BlockPool pool(10);
  SessionPool session(&pool, 2);
  const BlockId a = *session.Take();
  const BlockId b = *session.Take();
  EXPECT_EQ(session.Takeable(), 0);
  EXPECT_FALSE(session.Take().has_value());
  EXPECT_EQ(pool.free_blocks(), 8);
  session.GiveBack(a);
  EXPECT_EQ(session.held_blocks(), 1);
  EXPECT_EQ(session.Takeable(), 1);
  session.GiveBack(b);
  EXPECT_EQ(session.peak_blocks(), 2);
}

TEST(SessionPoolTest, AnEmptyServerPoolRefusesBeforeTheQuotaDoes) {
  BlockPool pool(1);
  SessionPool first(&pool, 5), second(&pool, 5);
  const BlockId id = *first.Take();
  EXPECT_EQ(second.Takeable(), 0);
  EXPECT_FALSE(second.Take().has_value());
  first.GiveBack(id);
  EXPECT_EQ(second.Takeable(), 1);
}

TEST(SessionPoolTest, ALoweredQuotaIsNeverNegativeRoom) {
  BlockPool pool(4);
  SessionPool session(&pool, 4);
  const BlockId a = *session.Take();
  const BlockId b = *session.Take();
  session.set_quota_blocks(1);
  EXPECT_EQ(session.Takeable(), 0);
  session.GiveBack(a);
  session.GiveBack(b);
}

}  // namespace
}  // namespace luna::kv
