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
  std::vector<BlockPool::Found> found(3);
  found[id.value()].holders = 1;
  pool.CheckInvariants(found, differences);
  EXPECT_THAT(differences, IsEmpty());
  found[id.value()] = {.holders = 0, .protectors = 1, .kept = true};
  pool.CheckInvariants(found, differences);
  EXPECT_THAT(differences, ElementsAre("block 0 counts 1 holders; 0 were found",
                                       "block 0 counts 0 protectors; 1 were found",
                                       "block 0 counts 0 prefixes; 1 were found"));
}

TEST(BlockPoolTest, AKeptBlockIsCachedUntilItIsNeeded) {
  BlockPool pool(3);
  std::vector<BlockId> recycled;
  pool.set_on_recycle([&](BlockId id) { recycled.push_back(id); });
  const BlockId first = *pool.Take(), second = *pool.Take();
  pool.Keep(first);
  pool.Keep(second);
  pool.Release(second);
  pool.Release(first);
  EXPECT_EQ(pool.cached_blocks(), 2);
  EXPECT_EQ(pool.charged_blocks(), 0);
  EXPECT_EQ(pool.available_blocks(), 3);
  const BlockId third = *pool.Take();  // what is free goes first
  EXPECT_THAT(recycled, IsEmpty());
  EXPECT_EQ(*pool.Take(), second);  // then what nobody has held for the longest time
  EXPECT_THAT(recycled, ElementsAre(second));
  pool.AddHolder(first);  // back from the cache
  EXPECT_EQ(pool.cached_blocks(), 0);
  EXPECT_EQ(pool.holders(first), 1);
  EXPECT_FALSE(pool.Take().has_value());
  pool.Unkeep(first);
  for (const BlockId id : {first, second, third}) pool.Release(id);
  EXPECT_EQ(pool.free_blocks(), 3);
}

TEST(BlockPoolTest, WhatNobodyProtectsCanBeHad) {
  BlockPool pool(4);
  const BlockId id = *pool.Take();
  pool.AddHolder(id);
  EXPECT_EQ(pool.unprotected_blocks(), 1);
  pool.Protect(id);
  EXPECT_EQ(pool.unprotected_blocks(), 0);
  pool.Protect(id);
  pool.Unprotect(id);
  EXPECT_EQ(pool.surplus_blocks(), 3);
  pool.Unprotect(id);
  EXPECT_EQ(pool.surplus_blocks(), 4);
  pool.Release(id);
  pool.Release(id);
  EXPECT_EQ(pool.unprotected_blocks(), 0);
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

TEST(SessionPoolTest, WhatIsGuaranteedToOneIsNotTakenByAnother) {
  BlockPool pool(5);
  SessionPool guaranteed(&pool, 5), other(&pool, 5);
  guaranteed.set_guaranteed_blocks(3);
  EXPECT_EQ(pool.reserved_blocks(), 3);
  std::vector<BlockId> held;
  while (const auto id = other.Take()) {
    held.push_back(*id);
    other.Protect(*id);  // in use: it cannot be had back
  }
  EXPECT_EQ(held.size(), 2u);
  EXPECT_EQ(guaranteed.Takeable(), 3);
  const BlockId own = *guaranteed.Take();
  EXPECT_EQ(guaranteed.unused_guarantee(), 3) << "it may be taken from it, and is owed then";
  guaranteed.Protect(own);
  EXPECT_EQ(other.Takeable(), 0);
  EXPECT_EQ(guaranteed.unused_guarantee(), 2);
  guaranteed.set_guaranteed_blocks(1);
  EXPECT_EQ(other.Takeable(), 2);
  guaranteed.Unprotect(own);
  EXPECT_EQ(other.Takeable(), 2);
  guaranteed.GiveBack(own);
  EXPECT_EQ(other.Takeable(), 2);
  for (const BlockId id : held) {
    other.Unprotect(id);
    other.GiveBack(id);
  }
}

TEST(SessionPoolTest, ABlockInPlaceOfASharedOneIsNoneMore) {
  BlockPool pool(2);
  SessionPool first(&pool, 1), second(&pool, 1);
  const BlockId shared = *first.Take();
  second.Share(shared);
  EXPECT_EQ(second.Takeable(), 0);
  const BlockId own = *second.TakeInsteadOf(shared);
  EXPECT_EQ(second.held_blocks(), 1);
  EXPECT_EQ(pool.holders(shared), 1);
  second.GiveBack(own);
  second.Share(shared);
  const BlockId last = *pool.Take();
  EXPECT_FALSE(second.TakeInsteadOf(shared).has_value()) << "there is none";
  pool.Release(last);
  second.GiveBack(shared);
  first.GiveBack(shared);
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
