#include "core/text/token_trie.h"

namespace luna::text {

void TokenTrie::Add(std::string_view spelling, TokenId id) {
  int32_t node = kNone;
  for (size_t i = 0; i < spelling.size(); ++i) {
    const auto byte = static_cast<uint8_t>(spelling[i]);
    const auto created = static_cast<int32_t>(ids_.size());
    int32_t& next =
        i == 0 ? first_[byte]
               : edges_.emplace(static_cast<uint64_t>(node) << 8 | byte, kNone).first->second;
    if (next == kNone) {
      next = created;
      ids_.push_back(kNone);
    }
    node = next;
  }
  if (ids_[node] == kNone) ids_[node] = id;
}

TokenTrie::Match TokenTrie::FindNext(std::string_view text, size_t offset) const {
  for (; offset < text.size(); ++offset) {
    int32_t node = first_[static_cast<uint8_t>(text[offset])];
    if (node == kNone) continue;
    Match match{offset, 0, kNone};
    for (size_t end = offset + 1;; ++end) {
      if (ids_[node] != kNone) match = {offset, end - offset, ids_[node]};
      if (end == text.size()) break;
      const auto edge =
          edges_.find(static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(text[end]));
      if (edge == edges_.end()) break;
      node = edge->second;
    }
    if (match.size > 0) return match;
  }
  return {text.size(), 0, kNone};
}

}  // namespace luna::text
