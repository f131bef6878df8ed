#include "core/kv/block_pool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace luna::kv {

BlockPool::BlockPool(int32_t num_blocks) : blocks_(num_blocks) {
  free_.reserve(num_blocks);
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(BlockId(id));
}

std::optional<BlockId> BlockPool::Take() {
  BlockId id;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (oldest_ != kNone) {
    id = BlockId(oldest_);
    Uncache(oldest_);
    blocks_[id.value()].kept = false;
    if (on_recycle_) on_recycle_(id);
  } else {
    return std::nullopt;
  }
  Block& block = blocks_[id.value()];
  LUNA_CHECK_EQ(block.holders, 0) << "free block " << id;
  block.holders = 1;
  ++unprotected_;
  peak_charged_ = std::max(peak_charged_, ++charged_);
  return id;
}

void BlockPool::AddHolder(BlockId id) {
  Block& block = blocks_[id.value()];
  if (block.holders == 0) {
    LUNA_CHECK(block.kept) << "block " << id << " is held by nobody and not cached";
    Uncache(id.value());
    ++unprotected_;
    peak_charged_ = std::max(peak_charged_, ++charged_);
  }
  ++block.holders;
}

void BlockPool::Release(BlockId id) {
  Block& block = blocks_[id.value()];
  LUNA_CHECK(block.holders > 0) << "block " << id << " is held by nobody";
  if (--block.holders > 0) return;
  LUNA_CHECK_EQ(block.protectors, 0) << "block " << id << " is protected and held by nobody";
  --charged_;
  --unprotected_;
  if (block.kept) {
    Cache(id.value());
  } else {
    free_.push_back(id);
  }
}

void BlockPool::Keep(BlockId id) {
  LUNA_CHECK(holders(id) > 0) << "block " << id << " is held by nobody";
  blocks_[id.value()].kept = true;
}

void BlockPool::Unkeep(BlockId id) {
  Block& block = blocks_[id.value()];
  if (!block.kept) return;
  block.kept = false;
  if (block.holders > 0) return;
  Uncache(id.value());
  free_.push_back(id);
}

void BlockPool::Protect(BlockId id) {
  Block& block = blocks_[id.value()];
  LUNA_CHECK(block.protectors < block.holders) << "block " << id << " has no holder to protect it";
  if (++block.protectors == 1) --unprotected_;
}

void BlockPool::Unprotect(BlockId id) {
  Block& block = blocks_[id.value()];
  LUNA_CHECK(block.protectors > 0) << "block " << id << " is protected by nobody";
  if (--block.protectors == 0) ++unprotected_;
}

void BlockPool::Cache(int32_t id) {
  Block& block = blocks_[id];
  block.older = newest_;
  block.newer = kNone;
  (newest_ == kNone ? oldest_ : blocks_[newest_].newer) = id;
  newest_ = id;
  ++cached_;
}

void BlockPool::Uncache(int32_t id) {
  const Block& block = blocks_[id];
  (block.older == kNone ? oldest_ : blocks_[block.older].newer) = block.newer;
  (block.newer == kNone ? newest_ : blocks_[block.newer].older) = block.older;
  --cached_;
}

void BlockPool::CheckInvariants(const std::vector<Found>& found,
                                std::vector<std::string>& differences) const {
  LUNA_CHECK_EQ(found.size(), blocks_.size());
  const auto differ = [&](int32_t id, const char* what, int64_t counted, int64_t there) {
    if (counted == there) return;
    differences.push_back(
        absl::StrCat("block ", id, " counts ", counted, " ", what, "; ", there, " were found"));
  };
  int32_t charged = 0, unprotected = 0, cached = 0;
  for (int32_t id = 0; id < total_blocks(); ++id) {
    const Block& block = blocks_[id];
    differ(id, "holders", block.holders, found[id].holders);
    differ(id, "protectors", block.protectors, found[id].protectors);
    differ(id, "prefixes", block.kept, found[id].kept);
    if (block.holders > 0) ++charged;
    if (block.holders > 0 && block.protectors == 0) ++unprotected;
    if (block.holders == 0 && block.kept) ++cached;
  }
  const auto total = [&](const char* what, int64_t counted, int64_t there) {
    if (counted == there) return;
    differences.push_back(absl::StrCat(counted, " blocks count as ", what, "; ", there, " are"));
  };
  total("charged", charged_, charged);
  total("unprotected", unprotected_, unprotected);
  total("cached", cached_, cached);
  int32_t listed = 0;
  for (int32_t id = oldest_; id != kNone && listed <= cached_; id = blocks_[id].newer) ++listed;
  total("cached, in the order of use", cached_, listed);

  std::vector<bool> seen(blocks_.size(), false);
  for (const BlockId id : free_) {
    const Block& block = blocks_[id.value()];
    if (seen[id.value()] || block.holders > 0 || block.kept) {
      differences.push_back(absl::StrCat("block ", id.value(), " is free and ",
                                         seen[id.value()]    ? "free again"
                                         : block.holders > 0 ? "held"
                                                             : "cached"));
    }
    seen[id.value()] = true;
  }
  if (free_blocks() + cached_ + charged_ != total_blocks()) {
    differences.push_back(absl::StrCat(free_blocks(), " free + ", cached_, " cached + ", charged_,
                                       " charged is not ", total_blocks()));
  }
}

}  // namespace luna::kv
