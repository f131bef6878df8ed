// Finds the spellings of added tokens in a text: at each place the longest, from left to right.
#ifndef LUNA_CORE_TEXT_TOKEN_TRIE_H_
#define LUNA_CORE_TEXT_TOKEN_TRIE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/ids.h"

namespace luna::text {

// Filled once, then const and thread-safe.
class TokenTrie {
 public:
  struct Match {
    size_t offset = 0;
    size_t size = 0;  // bytes; 0: no further match
    TokenId id = -1;
  };

  TokenTrie() { first_.fill(kNone); }

  // `spelling` must not be empty. The first id of a spelling stands.
  void Add(std::string_view spelling, TokenId id);
  bool empty() const { return ids_.empty(); }

  // The first match at or after `offset`; its offset is the text's size if there is none.
  Match FindNext(std::string_view text, size_t offset) const;

 private:
  static constexpr int32_t kNone = -1;

  std::array<int32_t, 256> first_;                // first byte -> node
  absl::flat_hash_map<uint64_t, int32_t> edges_;  // node << 8 | byte -> node
  std::vector<TokenId> ids_;                      // [num nodes] the token that ends there, or kNone
};

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_TOKEN_TRIE_H_
