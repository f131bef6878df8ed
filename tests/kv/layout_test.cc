#include "core/kv/layout.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::kv {
namespace {

using ::testing::ElementsAre;

KvLayout Full(int num_layers, int block_tokens = 16) {
  return MakeLayout(std::vector<int>(num_layers, 0), block_tokens, 4096);
}

// Gemma 3 270M: every sixth of 18 layers attends to everything, the others to 512 tokens.
KvLayout Gemma() {
  std::vector<int> windows(18, 512);
  for (int layer = 5; layer < 18; layer += 6) windows[layer] = 0;
  return MakeLayout(windows, 16, 2048);
}

TEST(LayoutTest, LayersThatAllSeeEverythingAreOneGroup) {
  const KvLayout layout = Full(8);
  ASSERT_EQ(layout.num_groups(), 1);
  EXPECT_THAT(layout.groups[0].layers, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_FALSE(layout.windowed());
}

TEST(LayoutTest, LunaNumbersAreThoseOfTheDesign) {
  const KvLayout layout = Full(8);  // 8 layers x 2 x 512 x 4 B a token
  EXPECT_EQ(layout.token_bytes(), 32768);
  EXPECT_EQ(layout.block_bytes(), 512 * 1024);
  EXPECT_EQ(layout.BlocksForTokens(500, 512) * layout.block_bytes(), 16'777'216);
}

TEST(LayoutTest, WindowsAreCutIntoGroupsOfOneSize) {
  const KvLayout layout = Gemma();
  ASSERT_EQ(layout.num_groups(), 6);
  EXPECT_THAT(layout.groups[0].layers, ElementsAre(5, 11, 17));
  EXPECT_EQ(layout.groups[0].window, 0);
  EXPECT_THAT(layout.groups[1].layers, ElementsAre(0, 1, 2));
  EXPECT_THAT(layout.groups[5].layers, ElementsAre(14, 15, 16));
  for (const LayerGroup& group : layout.groups) EXPECT_EQ(group.layers.size(), 3u);
  EXPECT_TRUE(layout.windowed());
  EXPECT_EQ(layout.token_bytes(), 18 * 2048);
}

TEST(LayoutTest, ASoleWindowNeedsNoFullGroup) {
  const KvLayout layout = MakeLayout(std::vector<int>{64, 64}, 16, 8);
  ASSERT_EQ(layout.num_groups(), 1);
  EXPECT_EQ(layout.groups[0].window, 64);
}

TEST(LayoutTest, CountsWithoutACommonDivisorMakeGroupsOfOneLayer) {
  const KvLayout layout = MakeLayout(std::vector<int>{0, 8, 8, 0, 8}, 4, 8);
  EXPECT_EQ(layout.num_groups(), 5);
  EXPECT_EQ(layout.layers_per_group(), 1);
}

TEST(LayoutTest, BlocksForTokensIsExactWithoutWindows) {
  const KvLayout layout = Full(1);
  EXPECT_EQ(layout.BlocksForTokens(0, 16), 0);
  EXPECT_EQ(layout.BlocksForTokens(1, 16), 1);
  EXPECT_EQ(layout.BlocksForTokens(16, 1), 1);
  EXPECT_EQ(layout.BlocksForTokens(17, 1), 2);
}

TEST(LayoutTest, WindowsBoundTheBlocks) {
  const KvLayout layout = Gemma();
  // 100,000 tokens one by one: the window's 512 positions touch at most 33 blocks.
  EXPECT_EQ(layout.BlocksForTokens(100'000, 1), 6250 + 5 * 33);
  EXPECT_EQ(layout.BlocksForTokens(100, 512), 6 * 7);
}

TEST(LayoutTest, TokensInBlocksIsTheInverse) {
  for (const KvLayout& layout : {Full(4), Gemma(), MakeLayout(std::vector<int>{7, 0}, 4, 8)}) {
    for (int64_t tokens = 1; tokens < 1200; tokens += 7) {
      const int64_t blocks = layout.BlocksForTokens(tokens, 1);
      const int64_t fits = layout.TokensInBlocks(blocks, 100'000);
      EXPECT_GE(fits, tokens);
      EXPECT_LE(layout.BlocksForTokens(fits, 1), blocks);
      EXPECT_GT(layout.BlocksForTokens(fits + 1, 1), blocks);
    }
    EXPECT_EQ(layout.TokensInBlocks(0, 100), 0);
    EXPECT_EQ(layout.TokensInBlocks(1'000'000, 100), 100);
  }
}

}  // namespace
}  // namespace luna::kv
