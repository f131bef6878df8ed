#include "core/kv/block_pool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace luna::kv {

BlockPool::BlockPool(int32_t num_blocks) : holders_(num_blocks, 0) {
  free_.reserve(num_blocks);
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(BlockId(id));
}

std::optional<BlockId> BlockPool::Take() {
  if (free_.empty()) return std::nullopt;
  const BlockId id = free_.back();
  free_.pop_back();
  LUNA_CHECK_EQ(holders_[id.value()], 0) << "free block " << id;
  holders_[id.value()] = 1;
  peak_charged_ = std::max(peak_charged_, ++charged_);
  return id;
}

void BlockPool::AddHolder(BlockId id) {
  LUNA_CHECK(holders_[id.value()] > 0) << "block " << id << " is held by nobody";
  ++holders_[id.value()];
}

void BlockPool::Release(BlockId id) {
  LUNA_CHECK(holders_[id.value()] > 0) << "block " << id << " is held by nobody";
  if (--holders_[id.value()] > 0) return;
  --charged_;
  free_.push_back(id);
}

void BlockPool::CheckInvariants(const std::vector<int32_t>& held,
                                std::vector<std::string>& differences) const {
  LUNA_CHECK_EQ(held.size(), holders_.size());
  int32_t charged = 0;
  for (int32_t id = 0; id < total_blocks(); ++id) {
    if (holders_[id] > 0) ++charged;
    if (holders_[id] != held[id]) {
      differences.push_back(absl::StrCat("block ", id, " counts ", holders_[id],
                                         " holders; it is in ", held[id], " tables"));
    }
  }
  if (charged != charged_) {
    differences.push_back(
        absl::StrCat(charged_, " blocks count as charged; ", charged, " have a holder"));
  }
  std::vector<bool> seen(holders_.size(), false);
  for (const BlockId id : free_) {
    if (seen[id.value()] || holders_[id.value()] > 0) {
      differences.push_back(absl::StrCat("block ", id.value(), " is free and ",
                                         seen[id.value()] ? "free again" : "held"));
    }
    seen[id.value()] = true;
  }
  if (free_blocks() + cached_ + charged_ != total_blocks()) {
    differences.push_back(absl::StrCat(free_blocks(), " free + ", cached_, " cached + ", charged_,
                                       " charged is not ", total_blocks()));
  }
}

}  // namespace luna::kv
