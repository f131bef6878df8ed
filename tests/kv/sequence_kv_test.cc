#include "core/kv/sequence_kv.h"

#include <algorithm>
#include <memory>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/rounds.h"

namespace luna::kv {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Without an index nobody shares, so nothing is ever copied.
bool Extend(SequenceKv& kv, int to_tokens) {
  std::vector<BlockCopy> copies;
  const bool extended = kv.Extend(to_tokens, copies);
  EXPECT_THAT(copies, IsEmpty());
  return extended;
}
void Advance(SequenceKv& kv, int to_tokens) { kv.Advance(to_tokens, {}); }

KvLayout FullLayout() { return MakeLayout(std::vector<int>{0, 0}, 4, 10); }
// A full group and two windowed ones; the window is no multiple of the block.
KvLayout WindowedLayout() { return MakeLayout(std::vector<int>{0, 6, 6}, 4, 10); }

TEST(SequenceKvTest, ExtendTakesWholeBlocksAndIsAllOrNothing) {
  const KvLayout layout = FullLayout();
  BlockPool pool(3);
  SessionPool session(&pool, 3);
  SequenceKv kv(&layout, &session);
  EXPECT_EQ(kv.MissingBlocks(9), 3);
  EXPECT_TRUE(Extend(kv, 5));
  EXPECT_EQ(kv.held_blocks(), 2);
  EXPECT_FALSE(Extend(kv, 13));
  EXPECT_EQ(kv.held_blocks(), 2);
  EXPECT_EQ(kv.ReachWith(1), 12);
  EXPECT_TRUE(Extend(kv, 12));
}

TEST(SequenceKvTest, UsedBytesAreComputedTokensToTheByte) {
  const KvLayout layout = FullLayout();
  BlockPool pool(10);
  SessionPool session(&pool, 10);
  SequenceKv kv(&layout, &session);
  ASSERT_TRUE(Extend(kv, 7));
  EXPECT_EQ(kv.used_bytes(), 0);
  Advance(kv, 7);
  EXPECT_EQ(kv.used_bytes(), 7 * layout.token_bytes());
}

TEST(SequenceKvTest, AWindowGivesBackWhatNoLaterPositionSees) {
  const KvLayout layout = WindowedLayout();
  BlockPool pool(30);
  SessionPool session(&pool, 30);
  SequenceKv kv(&layout, &session);
  ASSERT_TRUE(Extend(kv, 12));
  Advance(kv, 9);  // position 9 sees 4..9: block 0 is behind
  EXPECT_EQ(kv.held_blocks(), 3 + 2 + 2);
  EXPECT_THAT(kv.table(1)[0], kNoBlock);
  EXPECT_NE(kv.table(0)[0], kNoBlock);
  EXPECT_EQ(kv.used_bytes(), (9 + 5 + 5) * 10);
}

TEST(SequenceKvTest, TruncateKeepsWhatTheWindowStillReaches) {
  const KvLayout layout = WindowedLayout();
  BlockPool pool(30);
  SessionPool session(&pool, 30);
  SequenceKv kv(&layout, &session);
  ASSERT_TRUE(Extend(kv, 16));
  Advance(kv, 14);  // sees from 9: blocks 0 and 1 are behind
  kv.Truncate(13);  // sees from 8: still there
  EXPECT_EQ(kv.computed_tokens(), 13);
  kv.Truncate(12);  // sees from 7, in block 1, which is gone
  EXPECT_EQ(kv.computed_tokens(), 0);
  EXPECT_EQ(pool.free_blocks(), 30);
}

TEST(SequenceKvTest, TruncateGivesBackRoomThatWasNeverComputed) {
  const KvLayout layout = FullLayout();
  BlockPool pool(10);
  SessionPool session(&pool, 10);
  SequenceKv kv(&layout, &session);
  ASSERT_TRUE(Extend(kv, 20));
  Advance(kv, 6);
  kv.Truncate(100);
  EXPECT_EQ(kv.computed_tokens(), 6);
  EXPECT_EQ(kv.held_blocks(), 2);
}

TEST(SequenceKvTest, TheTailGoesFirst) {
  const KvLayout layout = FullLayout();
  BlockPool pool(10);
  SessionPool session(&pool, 10);
  SequenceKv kv(&layout, &session);
  ASSERT_TRUE(Extend(kv, 20));
  Advance(kv, 18);
  const std::vector<int32_t> before(kv.table(0).begin(), kv.table(0).end());
  kv.GiveBackTail(2);
  EXPECT_EQ(kv.computed_tokens(), 12);
  EXPECT_THAT(kv.table(0), ElementsAre(before[0], before[1], before[2]));
  kv.GiveBackTail(100);
  EXPECT_EQ(kv.held_blocks(), 0);
}

TEST(SequenceKvTest, AWindowSmallerThanABlockMayHoldNothingAtABoundary) {
  const KvLayout layout = MakeLayout(std::vector<int>{0, 1}, 4, 10);
  BlockPool pool(10);
  SessionPool session(&pool, 10);
  SequenceKv kv(&layout, &session);
  ASSERT_TRUE(Extend(kv, 8));
  Advance(kv, 8);
  EXPECT_EQ(kv.held_blocks(), 2);  // the full group's
  EXPECT_EQ(kv.used_bytes(), 80);
  kv.GiveBackTail(1);
  EXPECT_EQ(pool.free_blocks(), 10);
}

// --- Random operations against a model that keeps sets of positions. ---

struct Model {
  int computed = 0;
  int room = 0;             // tokens, a multiple of the block
  std::vector<int> behind;  // per group: blocks before this one are gone
};

class Player {
 public:
  Player(const KvLayout* layout, BlockPool* pool, int64_t quota)
      : layout_(layout), session_(pool, quota), kv_(layout, &session_) {
    model_.behind.assign(layout->num_groups(), 0);
  }

  void Extend(int tokens) {
    const int to = model_.computed + tokens;
    const int entries = std::max(0, CeilBlocks(to) - model_.room / layout_->block_tokens);
    const int64_t want = int64_t{entries} * layout_->num_groups();
    EXPECT_EQ(kv_.MissingBlocks(to), want);
    const bool possible = want <= session_.Takeable();
    EXPECT_EQ(::luna::kv::Extend(kv_, to), possible);
    if (possible) model_.room += entries * layout_->block_tokens;
  }

  void Advance(int tokens) {
    model_.computed = std::min(model_.room, model_.computed + tokens);
    ::luna::kv::Advance(kv_, model_.computed);
    for (int g = 0; g < layout_->num_groups(); ++g) {
      model_.behind[g] = std::max(model_.behind[g], FirstSeen(g, model_.computed));
    }
  }

  void Truncate(int to) {
    int keep = std::min(to, model_.computed);
    for (int g = 0; g < layout_->num_groups(); ++g) {
      if (FirstSeen(g, keep) < model_.behind[g]) {
        keep = 0;
        break;
      }
    }
    if (keep == 0) model_.behind.assign(layout_->num_groups(), 0);
    model_.computed = keep;
    model_.room = CeilBlocks(keep) * layout_->block_tokens;
    kv_.Truncate(to);
  }

  void GiveBackTail(int64_t blocks) {
    const int64_t before = kv_.held_blocks();
    kv_.GiveBackTail(blocks);
    EXPECT_LE(kv_.held_blocks(), std::max<int64_t>(0, before - blocks));
    if (kv_.computed_tokens() == 0) model_.behind.assign(layout_->num_groups(), 0);
    EXPECT_LE(kv_.computed_tokens(), model_.computed);
    model_.computed = kv_.computed_tokens();
    model_.room = CeilBlocks(model_.computed) * layout_->block_tokens;
  }

  // Tables, counts and bytes are those of the model.
  void Check(std::vector<BlockPool::Found>& found) {
    ASSERT_EQ(kv_.computed_tokens(), model_.computed);
    int64_t blocks = 0, bytes = 0;
    for (int g = 0; g < layout_->num_groups(); ++g) {
      const auto table = kv_.table(g);
      ASSERT_EQ(static_cast<int>(table.size()) * layout_->block_tokens, model_.room);
      for (int i = 0; i < static_cast<int>(table.size()); ++i) {
        ASSERT_EQ(table[i] == kNoBlock, i < model_.behind[g]) << "group " << g << " entry " << i;
        if (table[i] != kNoBlock) ++blocks;
      }
      const int seen = std::max(0, model_.computed - model_.behind[g] * layout_->block_tokens);
      bytes += int64_t{seen} * layout_->token_layer_bytes * layout_->layers_per_group();
    }
    EXPECT_EQ(kv_.held_blocks(), blocks);
    EXPECT_EQ(session_.held_blocks(), blocks);
    EXPECT_EQ(kv_.used_bytes(), bytes);
    EXPECT_LE(bytes, blocks * layout_->block_bytes());
    EXPECT_LE(blocks, session_.quota_blocks());
    EXPECT_EQ(kv_.Recount(found), blocks);
  }

  int computed() const { return model_.computed; }

 private:
  int CeilBlocks(int tokens) const {
    return (tokens + layout_->block_tokens - 1) / layout_->block_tokens;
  }
  int FirstSeen(int g, int position) const {
    const int window = layout_->groups[g].window;
    return window == 0 ? 0 : std::max(0, position - window + 1) / layout_->block_tokens;
  }

  const KvLayout* layout_;
  SessionPool session_;
  SequenceKv kv_;
  Model model_;
};

class SequenceKvPropertyTest : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(SequenceKvPropertyTest, RandomOperationsKeepTheLedger) {
  const KvLayout layout = MakeLayout(GetParam(), 4, 10);
  for (uint32_t seed = 0; seed < NumSeeds(20); ++seed) {
    std::mt19937 random(seed);
    BlockPool pool(60);
    std::vector<std::unique_ptr<Player>> players;
    for (int i = 0; i < 4; ++i) {
      players.push_back(std::make_unique<Player>(&layout, &pool, 10 + 15 * i));
    }
    for (int step = 0; step < 400; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      Player& player = *players[random() % players.size()];
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          player.Extend(random() % 12);
          break;
        case 3:
        case 4:
        case 5:
          player.Advance(random() % 9);
          break;
        case 6:
          player.Truncate(random() % (player.computed() + 5));
          break;
        case 7:
          player.GiveBackTail(1 + random() % 5);
          break;
      }
      std::vector<BlockPool::Found> found(pool.total_blocks());
      for (const auto& each : players) ASSERT_NO_FATAL_FAILURE(each->Check(found));
      EXPECT_THAT(found, Each(testing::Field(&BlockPool::Found::holders, testing::Le(1))));
      std::vector<std::string> differences;
      pool.CheckInvariants(found, differences);
      ASSERT_THAT(differences, IsEmpty());
    }
    players.clear();
    EXPECT_EQ(pool.free_blocks(), pool.total_blocks());
  }
}

// A sequence that is computed token by token never holds more than BlocksForTokens says.
TEST_P(SequenceKvPropertyTest, BlocksForTokensSuffice) {
  const KvLayout layout = MakeLayout(GetParam(), 4, 10);
  for (const int chunk : {1, 3, 4, 11}) {
    BlockPool pool(1000);
    SessionPool session(&pool, 1000);
    SequenceKv kv(&layout, &session);
    for (int tokens = chunk; tokens < 150; tokens += chunk) {
      ASSERT_TRUE(Extend(kv, tokens));
      EXPECT_LE(kv.held_blocks(), layout.BlocksForTokens(tokens, chunk)) << tokens;
      Advance(kv, tokens);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, SequenceKvPropertyTest,
                         testing::Values(std::vector<int>{0, 0}, std::vector<int>{0, 6, 6},
                                         std::vector<int>{9}, std::vector<int>{0, 1},
                                         std::vector<int>{0, 5, 13}));

}  // namespace
}  // namespace luna::kv
