#include "core/kv/session_pool.h"

#include "core/base/check.h"

namespace luna::kv {

SessionPool::~SessionPool() { LUNA_CHECK_EQ(held_, 0) << "a session's blocks outlive it"; }

std::optional<BlockId> SessionPool::Take() {
  if (held_ >= quota_) return std::nullopt;
  const std::optional<BlockId> id = pool_->Take();
  if (id.has_value()) peak_ = std::max(peak_, ++held_);
  return id;
}

void SessionPool::GiveBack(BlockId id) {
  LUNA_CHECK(held_ > 0) << "block " << id << " comes back to a session that holds none";
  pool_->Release(id);
  --held_;
}

}  // namespace luna::kv
