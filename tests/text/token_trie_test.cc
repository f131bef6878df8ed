#include "core/text/token_trie.h"

#include <gtest/gtest.h>

#include <string>

namespace luna::text {
namespace {

void ExpectMatch(const TokenTrie::Match& match, size_t offset, size_t size, TokenId id) {
  EXPECT_EQ(match.offset, offset);
  EXPECT_EQ(match.size, size);
  EXPECT_EQ(match.id, id);
}

TEST(TokenTrieTest, FindsTheFirstPlaceAndThereTheLongest) {
  TokenTrie trie;
  EXPECT_TRUE(trie.empty());
  trie.Add("\n", 1);
  trie.Add("\n\n", 2);
  trie.Add("\n\n\n\n", 4);
  trie.Add("<b>", 5);
  EXPECT_FALSE(trie.empty());
  const std::string text = "a\n\n\nb<b";
  ExpectMatch(trie.FindNext(text, 0), 1, 2, 2);
  ExpectMatch(trie.FindNext(text, 3), 3, 1, 1);
  ExpectMatch(trie.FindNext(text, 4), text.size(), 0, -1);
  ExpectMatch(trie.FindNext("<<b>", 0), 1, 3, 5);
}

TEST(TokenTrieTest, FirstIdOfASpellingStands) {
  TokenTrie trie;
  trie.Add("x", 7);
  trie.Add("x", 8);
  ExpectMatch(trie.FindNext("x", 0), 0, 1, 7);
}

}  // namespace
}  // namespace luna::text
