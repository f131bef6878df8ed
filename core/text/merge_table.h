// Byte-pair merging: which neighbours become one symbol, and in which order.
#ifndef LUNA_CORE_TEXT_MERGE_TABLE_H_
#define LUNA_CORE_TEXT_MERGE_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/ids.h"

namespace luna::text {

// Filled once, then const and thread-safe. Symbols are token ids, or any other non-negative number
// that its owner gives a meaning to.
class MergeTable {
 public:
  struct Merge {
    int32_t rank;  // the lowest is merged first; equal ranks from the left
    TokenId result;
  };

  void Reserve(size_t num_merges) { merges_.reserve(num_merges); }
  // The first merge of a pair stands.
  void Add(TokenId left, TokenId right, Merge merge) { merges_.emplace(Key(left, right), merge); }
  // Null if the two never become one.
  const Merge* Find(TokenId left, TokenId right) const {
    const auto found = merges_.find(Key(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

 private:
  static uint64_t Key(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  absl::flat_hash_map<uint64_t, Merge> merges_;
};

// Merges symbols until no pair is in the table. Keeps its buffers between calls: one for each
// thread. Short runs are searched from end to end at each merge, which is fastest for words; long
// ones go through a heap, so that n symbols never cost more than n log n.
class BpeMerger {
 public:
  explicit BpeMerger(const MergeTable* table) : table_(table) {}

  // Replaces `symbols` by the merged ones.
  void Merge(std::vector<TokenId>& symbols);

 private:
  struct Node {
    TokenId symbol;
    int32_t previous;  // index of the neighbour on the left, -1 at the end
    int32_t next;
  };
  struct Candidate {
    int32_t rank;
    int32_t node;  // the left one of the pair
    TokenId left, right, result;
  };

  void MergeShort(std::vector<TokenId>& symbols);
  void MergeLong(std::vector<TokenId>& symbols);
  void PushCandidate(int32_t node);

  const MergeTable* table_;
  std::vector<MergeTable::Merge> pairs_;  // [num symbols - 1], of the short way
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_MERGE_TABLE_H_
