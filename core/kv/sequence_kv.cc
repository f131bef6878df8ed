#include "core/kv/sequence_kv.h"

#include <algorithm>

#include "core/base/check.h"

namespace luna::kv {

SequenceKv::SequenceKv(const KvLayout* layout, SessionPool* pool) : layout_(layout), pool_(pool) {
  for (const LayerGroup& group : layout->groups) {
    tables_.push_back({.window = group.window, .first_live = 0, .blocks = {}});
  }
}

int SequenceKv::NumBlocks(int num_tokens) const {
  return (num_tokens + layout_->block_tokens - 1) / layout_->block_tokens;
}

int SequenceKv::FirstSeen(const Table& table, int position) const {
  if (table.window == 0) return 0;
  return std::max(0, position - table.window + 1) / layout_->block_tokens;
}

int64_t SequenceKv::held_blocks() const {
  int64_t count = 0;
  for (const Table& table : tables_) {
    count += static_cast<int64_t>(table.blocks.size()) - table.first_live;
  }
  return count;
}

int64_t SequenceKv::used_bytes() const {
  int64_t tokens = 0;
  for (const Table& table : tables_) {
    tokens += std::max(0, computed_ - table.first_live * layout_->block_tokens);
  }
  return tokens * layout_->token_layer_bytes * layout_->layers_per_group();
}

void SequenceKv::Reserve(int num_tokens) {
  for (Table& table : tables_) table.blocks.reserve(NumBlocks(num_tokens));
}

int64_t SequenceKv::MissingBlocks(int to_tokens) const {
  const int64_t more = NumBlocks(to_tokens) - static_cast<int64_t>(tables_.front().blocks.size());
  return std::max<int64_t>(0, more) * layout_->num_groups();
}

int64_t SequenceKv::ReachWith(int64_t num_blocks) const {
  const int64_t more = std::max<int64_t>(0, num_blocks) / layout_->num_groups();
  return (static_cast<int64_t>(tables_.front().blocks.size()) + more) * layout_->block_tokens;
}

bool SequenceKv::Extend(int to_tokens) {
  if (MissingBlocks(to_tokens) > pool_->Takeable()) return false;
  const size_t size = NumBlocks(to_tokens);
  for (Table& table : tables_) {
    while (table.blocks.size() < size) table.blocks.push_back(pool_->Take()->value());
  }
  return true;
}

void SequenceKv::Advance(int to_tokens) {
  LUNA_CHECK_LE(computed_, to_tokens);
  LUNA_CHECK_LE(static_cast<size_t>(NumBlocks(to_tokens)), tables_.front().blocks.size());
  computed_ = to_tokens;
  for (Table& table : tables_) {
    for (const int end = FirstSeen(table, computed_); table.first_live < end; ++table.first_live) {
      int32_t& block = table.blocks[table.first_live];
      pool_->GiveBack(BlockId(block));
      block = kNoBlock;
    }
  }
}

void SequenceKv::Truncate(int to_tokens) {
  int keep = std::min(computed_, to_tokens);
  for (const Table& table : tables_) {
    if (FirstSeen(table, keep) < table.first_live) keep = 0;
  }
  const int size = NumBlocks(keep);
  for (Table& table : tables_) {
    while (static_cast<int>(table.blocks.size()) > size) {
      if (table.blocks.back() != kNoBlock) pool_->GiveBack(BlockId(table.blocks.back()));
      table.blocks.pop_back();
    }
    table.first_live = std::min(table.first_live, size);
  }
  computed_ = keep;
}

void SequenceKv::GiveBackTail(int64_t num_blocks) {
  const int64_t target = std::max<int64_t>(0, held_blocks() - num_blocks);
  int entries = static_cast<int>(tables_.front().blocks.size());
  while (held_blocks() > target) Truncate(--entries * layout_->block_tokens);
}

int64_t SequenceKv::Recount(std::vector<int32_t>& held) const {
  int64_t count = 0;
  for (const Table& table : tables_) {
    for (const int32_t block : table.blocks) {
      if (block == kNoBlock) continue;
      ++held[block];
      ++count;
    }
  }
  return count;
}

}  // namespace luna::kv
