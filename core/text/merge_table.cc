#include "core/text/merge_table.h"

#include <algorithm>
#include <limits>

namespace luna::text {
namespace {

constexpr size_t kShort = 48;  // symbols
constexpr MergeTable::Merge kNone{std::numeric_limits<int32_t>::max(), -1};

}  // namespace

void BpeMerger::Merge(std::vector<TokenId>& symbols) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kShort) {
    MergeShort(symbols);
  } else {
    MergeLong(symbols);
  }
}

void BpeMerger::MergeShort(std::vector<TokenId>& symbols) {
  const auto look_up = [&](size_t i) {
    const MergeTable::Merge* merge = table_->Find(symbols[i], symbols[i + 1]);
    return merge != nullptr ? *merge : kNone;
  };
  pairs_.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) pairs_.push_back(look_up(i));
  while (!pairs_.empty()) {
    const auto best = std::min_element(
        pairs_.begin(), pairs_.end(),
        [](const MergeTable::Merge& a, const MergeTable::Merge& b) { return a.rank < b.rank; });
    if (best->result < 0) return;
    const size_t i = static_cast<size_t>(best - pairs_.begin());
    symbols[i] = best->result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(i) + 1);
    pairs_.erase(best);
    if (i < pairs_.size()) pairs_[i] = look_up(i);
    if (i > 0) pairs_[i - 1] = look_up(i - 1);
  }
}

void BpeMerger::PushCandidate(int32_t node) {
  const int32_t next = nodes_[node].next;
  if (next < 0) return;
  const TokenId left = nodes_[node].symbol;
  const TokenId right = nodes_[next].symbol;
  const MergeTable::Merge* merge = table_->Find(left, right);
  if (merge == nullptr) return;
  heap_.push_back({merge->rank, node, left, right, merge->result});
}

void BpeMerger::MergeLong(std::vector<TokenId>& symbols) {
  const auto after = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.node > b.node;
  };
  const auto push = [&](int32_t node) {
    const size_t before = heap_.size();
    PushCandidate(node);
    if (heap_.size() > before) std::push_heap(heap_.begin(), heap_.end(), after);
  };
  const auto count = static_cast<int32_t>(symbols.size());
  nodes_.clear();
  for (int32_t i = 0; i < count; ++i) {
    nodes_.push_back({symbols[i], i - 1, i + 1 < count ? i + 1 : -1});
  }
  heap_.clear();
  for (int32_t i = 0; i < count; ++i) PushCandidate(i);
  std::make_heap(heap_.begin(), heap_.end(), after);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), after);
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    Node& left = nodes_[candidate.node];
    // An entry outlives its pair when one side was merged elsewhere; a symbol of -1 is gone.
    if (left.symbol != candidate.left || left.next < 0) continue;
    Node& right = nodes_[left.next];
    if (right.symbol != candidate.right) continue;
    left.symbol = candidate.result;
    right.symbol = -1;
    left.next = right.next;
    if (left.next >= 0) nodes_[left.next].previous = candidate.node;
    push(candidate.node);
    if (left.previous >= 0) push(left.previous);
  }
  symbols.clear();
  for (int32_t i = 0; i >= 0; i = nodes_[i].next) symbols.push_back(nodes_[i].symbol);
}

}  // namespace luna::text
