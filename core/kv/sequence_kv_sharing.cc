// What a sequence shares with others: the blocks of texts that begin alike.
#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "core/kv/sequence_kv.h"

namespace luna::kv {

void SequenceKv::Register(std::span<const TokenId> tokens) {
  const int whole = computed_ / layout_->block_tokens;
  while (static_cast<int>(nodes_.size()) < whole) {
    if (!RegisterEntry(static_cast<int>(nodes_.size()), tokens)) break;
  }
  AcquireLast();
}

// Windows may have left all of its blocks behind.
void SequenceKv::AcquireLast() {
  const PrefixIndex::Node last = nodes_.empty() ? PrefixIndex::kNone : nodes_.back();
  if (last == last_) return;
  if (last != PrefixIndex::kNone) index_->Acquire(last);
  if (last_ != PrefixIndex::kNone) index_->Release(last_);
  last_ = last;
}

// Where somebody has computed the same, one of the two blocks is enough.
bool SequenceKv::RegisterEntry(int entry, std::span<const TokenId> tokens) {
  const int size = layout_->block_tokens;
  const PrefixIndex::Node parent = nodes_.empty() ? root_ : nodes_.back();
  const PrefixIndex::Node node = index_->FindOrAdd(parent, tokens.subspan(entry * size, size));
  if (node == PrefixIndex::kNone) return false;
  for (int group = 0; group < layout_->num_groups(); ++group) {
    Table& table = tables_[group];
    if (entry < table.first_live) continue;
    int32_t& own = table.blocks[entry];
    const int32_t theirs = index_->block(node, group);
    if (theirs == kNoBlock) {
      index_->SetBlock(node, group, BlockId(own));
    } else if (theirs != own) {
      GiveBack(entry, own);
      pool_->Share(BlockId(theirs));
      own = theirs;
      if (entry < protected_) pool_->Protect(BlockId(own));
    }
  }
  nodes_.push_back(node);
  return true;
}

void SequenceKv::FindNodes(std::span<const TokenId> tokens) {
  const int size = layout_->block_tokens;
  const int most = (static_cast<int>(tokens.size()) - 1) / size;
  found_.clear();
  PrefixIndex::Node node = nodes_.empty() ? root_ : nodes_.back();
  for (int entry = static_cast<int>(nodes_.size()); entry < most; ++entry) {
    node = index_->Find(node, tokens.subspan(entry * size, size));
    if (node == PrefixIndex::kNone) return;
    found_.push_back(node);
  }
}

// The most entries of which every group has all blocks that the position after them sees.
int SequenceKv::UsableEntries() const {
  const int first = static_cast<int>(nodes_.size());
  int usable = 0;
  std::vector<int> run(tables_.size());  // of blocks that are there, up to `entry`
  for (size_t g = 0; g < tables_.size(); ++g)
    run[g] = first - std::min(tables_[g].first_live, first);
  for (int entry = first; entry < first + static_cast<int>(found_.size()); ++entry) {
    bool all = true;
    for (size_t g = 0; g < tables_.size(); ++g) {
      const int32_t block = index_->block(found_[entry - first], static_cast<int>(g));
      run[g] = block == kNoBlock ? 0 : run[g] + 1;
      const int seen = FirstSeen(tables_[g], (entry + 1) * layout_->block_tokens);
      all = all && entry + 1 - run[g] <= seen;
    }
    if (all) usable = entry + 1;
  }
  return usable;
}

void SequenceKv::Adopt(std::span<const TokenId> tokens) {
  if (index_ == nullptr) return;
  FindNodes(tokens);
  if (found_.empty()) return;
  const int first = static_cast<int>(nodes_.size()), usable = UsableEntries();
  const int reach = usable * layout_->block_tokens;
  if (reach <= computed_) return;
  int64_t shared = 0;
  for (const Table& table : tables_) shared += usable - std::max(first, FirstSeen(table, reach));
  if (shared > pool_->left_in_quota()) return;
  DropEntriesFrom(first);  // part of a block, perhaps, and room that was not used
  for (size_t g = 0; g < tables_.size(); ++g) {
    Table& table = tables_[g];
    const int seen = FirstSeen(table, reach);
    LeaveBehind(table, std::min(seen, first));
    for (int entry = first; entry < usable; ++entry) {
      const bool sees = entry >= seen;
      const int32_t block =
          sees ? index_->block(found_[entry - first], static_cast<int>(g)) : kNoBlock;
      if (sees) pool_->Share(BlockId(block));
      table.blocks.push_back(block);
    }
    table.first_live = std::max(table.first_live, seen);
  }
  nodes_.insert(nodes_.end(), found_.begin(), found_.begin() + (usable - first));
  AcquireLast();
  computed_ = reach;
  UpdateProtection();
}

void SequenceKv::CopyPartOf(const SequenceKv& other, int to_tokens,
                            std::vector<BlockCopy>& copies) {
  const int entry = computed_ / layout_->block_tokens;
  LUNA_CHECK(!PartialEntry().has_value() && !layout_->windowed() && to_tokens > computed_);
  LUNA_CHECK_LE(to_tokens, std::min(other.computed_, (entry + 1) * layout_->block_tokens));
  DropEntriesFrom(entry);
  if (pool_->Takeable() < layout_->num_groups()) return;
  for (size_t g = 0; g < tables_.size(); ++g) {
    const BlockId copy = *pool_->Take();
    copies.push_back({.from = BlockId(other.tables_[g].blocks[entry]), .to = copy});
    tables_[g].blocks.push_back(copy.value());
  }
  computed_ = to_tokens;
  UpdateProtection();
}

void SequenceKv::ForkFrom(const SequenceKv& other, int num_tokens) {
  LUNA_CHECK(computed_ == 0 && NumEntries() == 0 && root_ == other.root_);
  const int tokens = std::min(num_tokens, other.computed_);
  int64_t shared = 0;
  for (const Table& table : other.tables_) {
    if (FirstSeen(table, tokens) < table.first_live) return;
    shared += NumBlocks(tokens) - FirstSeen(table, tokens);
  }
  if (shared > pool_->left_in_quota()) return;
  const int entries = NumBlocks(tokens);
  for (size_t g = 0; g < tables_.size(); ++g) {
    Table& table = tables_[g];
    const int seen = FirstSeen(table, tokens);
    for (int entry = 0; entry < entries; ++entry) {
      const int32_t block = entry < seen ? kNoBlock : other.tables_[g].blocks[entry];
      if (block != kNoBlock) pool_->Share(BlockId(block));
      table.blocks.push_back(block);
    }
    table.first_live = seen;
  }
  computed_ = tokens;
  const size_t whole = static_cast<size_t>(tokens / layout_->block_tokens);
  nodes_.assign(other.nodes_.begin(), other.nodes_.begin() + static_cast<ptrdiff_t>(std::min(
                                                                 whole, other.nodes_.size())));
  AcquireLast();
  UpdateProtection();
}

}  // namespace luna::kv
