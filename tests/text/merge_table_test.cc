#include "core/text/merge_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

namespace luna::text {
namespace {

using Merges = std::map<std::pair<TokenId, TokenId>, MergeTable::Merge>;

// The definition: again and again the pair of lowest rank, the leftmost of equals.
std::vector<TokenId> MergeByDefinition(const Merges& merges, std::vector<TokenId> symbols) {
  while (true) {
    const MergeTable::Merge* best = nullptr;
    size_t place = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = merges.find({symbols[i], symbols[i + 1]});
      if (found == merges.end() || (best != nullptr && found->second.rank >= best->rank)) continue;
      best = &found->second;
      place = i;
    }
    if (best == nullptr) return symbols;
    symbols[place] = best->result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

TEST(BpeMergerTest, EqualsTheDefinitionOnRandomTablesShortAndLong) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const int num_symbols = 2 + static_cast<int>(random() % 5);
    Merges merges;
    MergeTable table;
    for (int i = 0; i < 40; ++i) {
      const TokenId known = num_symbols + i;  // results so far may be merged again
      const auto left = static_cast<TokenId>(random() % known);
      const auto right = static_cast<TokenId>(random() % known);
      const MergeTable::Merge merge{static_cast<int32_t>(random() % 30), known};  // ranks repeat
      if (merges.emplace(std::pair(left, right), merge).second) table.Add(left, right, merge);
    }
    BpeMerger merger(&table);
    for (const size_t size : {0u, 1u, 2u, 7u, 47u, 48u, 49u, 50u, 300u}) {
      std::vector<TokenId> symbols(size);
      for (TokenId& symbol : symbols) symbol = static_cast<TokenId>(random() % num_symbols);
      const std::vector<TokenId> expected = MergeByDefinition(merges, symbols);
      merger.Merge(symbols);
      EXPECT_EQ(symbols, expected) << "round " << round << ", " << size << " symbols";
    }
  }
}

TEST(MergeTableTest, FirstMergeOfAPairStands) {
  MergeTable table;
  table.Add(1, 2, {0, 3});
  table.Add(1, 2, {1, 4});
  ASSERT_NE(table.Find(1, 2), nullptr);
  EXPECT_EQ(table.Find(1, 2)->result, 3);
  EXPECT_EQ(table.Find(2, 1), nullptr);
}

}  // namespace
}  // namespace luna::text
