#include "core/kv/prefix_index.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kv/sequence_kv.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/rounds.h"

namespace luna::kv {
namespace {

using ::testing::IsEmpty;

class PrefixIndexTest : public ::testing::Test {
 protected:
  std::vector<std::string> Differences(std::vector<BlockPool::Found> found) const {
    std::vector<std::string> differences;
    index_.CheckInvariants(found, differences);
    pool_.CheckInvariants(found, differences);
    return differences;
  }

  const KvLayout layout_ = MakeLayout(std::vector<int>{0}, 2, 10);
  BlockPool pool_{4};
  PrefixIndex index_{&layout_, &pool_, /*hash_bits=*/1};
};

TEST_F(PrefixIndexTest, FindsAChildByItsParentAndItsTokens) {
  const PrefixIndex::Node root = index_.AcquireRoot("class"), other = index_.AcquireRoot("else");
  const std::vector<TokenId> a = {1, 2}, b = {1, 3};
  const PrefixIndex::Node node = index_.FindOrAdd(root, a);
  index_.SetBlock(node, 0, *pool_.Take());
  EXPECT_EQ(index_.Find(root, a), node);
  EXPECT_EQ(index_.FindOrAdd(root, a), node);
  EXPECT_EQ(index_.Find(root, b), PrefixIndex::kNone);
  EXPECT_EQ(index_.Find(node, a), PrefixIndex::kNone);
  EXPECT_EQ(index_.Find(other, a), PrefixIndex::kNone);
  EXPECT_EQ(index_.AcquireRoot("class"), root);
  pool_.Release(BlockId(index_.block(node, 0)));
  EXPECT_EQ(pool_.cached_blocks(), 1);
  EXPECT_THAT(Differences(std::vector<BlockPool::Found>(4)), IsEmpty());
}

TEST_F(PrefixIndexTest, ANodeGoesWithItsLastBlockAndChild) {
  const PrefixIndex::Node root = index_.AcquireRoot("class");
  const PrefixIndex::Node first = index_.FindOrAdd(root, std::vector<TokenId>{1, 2});
  index_.SetBlock(first, 0, *pool_.Take());
  const PrefixIndex::Node second = index_.FindOrAdd(first, std::vector<TokenId>{3, 4});
  index_.SetBlock(second, 0, *pool_.Take());
  const BlockId upper(index_.block(first, 0)), lower(index_.block(second, 0));
  index_.Forget(upper);
  EXPECT_EQ(index_.num_nodes(), 2u);  // the way to the second
  EXPECT_EQ(index_.block(first, 0), kNoBlock);
  index_.Forget(lower);
  EXPECT_EQ(index_.num_nodes(), 0u);
  index_.Forget(lower);  // in no node: nothing
  pool_.Release(upper);
  pool_.Release(lower);
  EXPECT_EQ(pool_.free_blocks(), 4);
  index_.Release(root);
  EXPECT_THAT(Differences(std::vector<BlockPool::Found>(4)), IsEmpty());
}

TEST_F(PrefixIndexTest, WhatThePoolTakesForSomethingElseIsForgotten) {
  const PrefixIndex::Node root = index_.AcquireRoot("class");
  const std::vector<TokenId> tokens = {1, 2};
  const PrefixIndex::Node node = index_.FindOrAdd(root, tokens);
  const BlockId block = *pool_.Take();
  index_.SetBlock(node, 0, block);
  pool_.Release(block);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(pool_.Take().has_value());
  EXPECT_EQ(index_.Find(root, tokens), PrefixIndex::kNone);
}

TEST_F(PrefixIndexTest, WhatIsFullKeepsNothingNew) {
  PrefixIndex::Node node = index_.AcquireRoot("class");
  for (TokenId i = 0; i < 4; ++i) {
    node = index_.FindOrAdd(node, std::vector<TokenId>{i, i});
    index_.Acquire(node);
    ASSERT_NE(node, PrefixIndex::kNone);
  }
  EXPECT_EQ(index_.FindOrAdd(node, std::vector<TokenId>{9, 9}), PrefixIndex::kNone);
}

// --- Random lives of sequences that share, against what every block is known to contain. ---

// A token's contents are the tokens up to it in its scope and its layer group.
using Contents = std::vector<std::string>;  // [block_tokens]; empty: not written

struct World {
  World(const std::vector<int>& windows, int num_blocks, int hash_bits)
      : layout(MakeLayout(windows, 3, 10)),
        pool(num_blocks),
        index(&layout, &pool, hash_bits),
        contents(num_blocks, Contents(3)) {}

  const KvLayout layout;
  BlockPool pool;
  PrefixIndex index;
  std::vector<Contents> contents;  // by block
};

class Sharer {
 public:
  Sharer(World* world, std::string scope, int64_t quota)
      : world_(world),
        scope_(std::move(scope)),
        pool_(&world->pool, quota),
        kv_(&world->layout, &pool_, &world->index, scope_) {}

  // Computes up to `count` more tokens of the text, if there is room.
  void Compute(int count) {
    const int begin = kv_.computed_tokens();
    const int end = std::min(begin + count, static_cast<int>(tokens_.size()));
    std::vector<BlockCopy> copies;
    if (end <= begin || !kv_.Extend(end, copies)) return;
    for (const BlockCopy& copy : copies) {
      world_->contents[copy.to.value()] = world_->contents[copy.from.value()];
    }
    for (int position = begin; position < end; ++position) Write(position);
    kv_.Advance(end, tokens_);
  }

  void Say(TokenId token) { tokens_.push_back(token); }
  void Adopt() {
    if (!tokens_.empty()) kv_.Adopt(tokens_);
  }
  void Truncate(int to) {
    tokens_.resize(std::min<size_t>(tokens_.size(), to));
    kv_.Truncate(to);
  }
  void Shrink() {
    if (kv_.CanGiveBackLast(/*alone=*/false)) kv_.GiveBackLast();
  }
  void SetRunning(bool running) { kv_.SetRunning(running); }
  void Guarantee(int64_t blocks) {
    pool_.set_guaranteed_blocks(blocks);
    kv_.UpdateProtection();
  }
  void ForkFrom(const Sharer& other, int count) {
    if (!kv_.SameScope(other.kv_)) return;
    Truncate(0);
    tokens_.assign(other.tokens_.begin(),
                   other.tokens_.begin() + std::min<size_t>(count, other.tokens_.size()));
    kv_.ForkFrom(other.kv_, count);
  }

  // Every block holds what this sequence would have written.
  void Check(std::vector<BlockPool::Found>& found) const {
    ASSERT_LE(kv_.computed_tokens(), static_cast<int>(tokens_.size()));
    for (int group = 0; group < world_->layout.num_groups(); ++group) {
      for (int position = 0; position < kv_.computed_tokens(); ++position) {
        const int32_t block = kv_.table(group)[position / 3];
        if (block == kNoBlock) continue;
        ASSERT_EQ(world_->contents[block][position % 3], What(group, position))
            << "position " << position << " of group " << group << " in block " << block;
      }
    }
    EXPECT_EQ(kv_.Recount(found), pool_.held_blocks());
    EXPECT_EQ(kv_.held_blocks(), pool_.held_blocks());
    EXPECT_LE(pool_.held_blocks(), pool_.quota_blocks());
  }
  int num_tokens() const { return static_cast<int>(tokens_.size()); }
  int64_t unused_guarantee() const { return pool_.unused_guarantee(); }

 private:
  std::string What(int group, int position) const {
    std::string text = absl::StrCat(scope_, "/", group, "/");
    for (int i = 0; i <= position; ++i) absl::StrAppend(&text, tokens_[i], " ");
    return text;
  }
  void Write(int position) {
    for (int group = 0; group < world_->layout.num_groups(); ++group) {
      world_->contents[kv_.table(group)[position / 3]][position % 3] = What(group, position);
    }
  }

  World* const world_;
  const std::string scope_;
  SessionPool pool_;
  SequenceKv kv_;
  std::vector<TokenId> tokens_;
};

class SharingPropertyTest : public ::testing::TestWithParam<std::tuple<std::vector<int>, int>> {};

TEST_P(SharingPropertyTest, EveryBlockHoldsWhatItsHoldersWouldHaveWritten) {
  const auto& [windows, hash_bits] = GetParam();
  for (uint32_t seed = 0; seed < NumSeeds(10); ++seed) {
    std::mt19937 random(seed);
    World world(windows, 60, hash_bits);
    std::vector<std::unique_ptr<Sharer>> sharers(6);
    for (int step = 0; step < 1500; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      auto& sharer = sharers[random() % sharers.size()];
      if (sharer == nullptr || random() % 40 == 0) {
        sharer.reset();
        sharer = std::make_unique<Sharer>(&world, random() % 4 == 0 ? "else" : "class",
                                          12 + random() % 60);
      }
      switch (random() % 10) {
        case 0:
        case 1:
        case 2:
          for (int i = 0; i < 4; ++i) sharer->Say(static_cast<TokenId>(random() % 8 == 0));
          break;
        case 3:
        case 4:
          sharer->Compute(1 + random() % 9);
          break;
        case 5:
          sharer->Adopt();
          break;
        case 6:
          sharer->Truncate(random() % (sharer->num_tokens() + 2));
          break;
        case 7:
          sharer->Shrink();
          break;
        case 8:
          sharer->SetRunning(random() % 2 == 0);
          sharer->Guarantee(random() % 6);
          break;
        case 9: {
          const auto& other = sharers[random() % sharers.size()];
          if (other == nullptr || other == sharer) break;
          sharer->ForkFrom(*other, random() % (other->num_tokens() + 1));
          break;
        }
      }
      std::vector<BlockPool::Found> found(world.pool.total_blocks());
      int64_t unused = 0;
      for (const auto& each : sharers) {
        if (each == nullptr) continue;
        ASSERT_NO_FATAL_FAILURE(each->Check(found));
        unused += each->unused_guarantee();
      }
      ASSERT_EQ(unused, world.pool.unused_guarantees());
      std::vector<std::string> differences;
      world.index.CheckInvariants(found, differences);
      world.pool.CheckInvariants(found, differences);
      ASSERT_THAT(differences, IsEmpty());
    }
    sharers.clear();
    EXPECT_EQ(world.pool.charged_blocks(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SharingPropertyTest,
    testing::Combine(testing::Values(std::vector<int>{0, 0}, std::vector<int>{0, 5, 5},
                                     std::vector<int>{7}, std::vector<int>{0, 1},
                                     std::vector<int>{2, 11}),
                     testing::Values(0, 64)));

}  // namespace
}  // namespace luna::kv
