#include "core/kv/session_pool.h"

#include "core/base/check.h"

namespace luna::kv {

SessionPool::~SessionPool() {
  LUNA_CHECK_EQ(held_, 0) << "a session's blocks outlive it";
  set_guaranteed_blocks(0);
}

int64_t SessionPool::Available() const {
  const int64_t others = pool_->unused_guarantees() - unused_guarantee();
  const int64_t available = pool_->available_blocks();
  return std::max<int64_t>(0,
                           std::min(available, available + pool_->unprotected_blocks() - others));
}

std::optional<BlockId> SessionPool::Take() {
  if (Takeable() <= 0) return std::nullopt;
  const std::optional<BlockId> id = pool_->Take();
  if (id.has_value()) ChangeHeld(1);
  return id;
}

std::optional<BlockId> SessionPool::TakeInsteadOf(BlockId shared) {
  LUNA_CHECK(pool_->holders(shared) > 1) << "block " << shared << " is held by nobody else";
  if (Available() <= 0) return std::nullopt;
  const std::optional<BlockId> id = pool_->Take();
  if (id.has_value()) pool_->Release(shared);
  return id;
}

void SessionPool::Share(BlockId id) {
  pool_->AddHolder(id);
  ChangeHeld(1);
}

void SessionPool::GiveBack(BlockId id) {
  LUNA_CHECK(held_ > 0) << "block " << id << " comes back to a session that holds none";
  pool_->Release(id);
  ChangeHeld(-1);
}

void SessionPool::set_guaranteed_blocks(int64_t guaranteed_blocks) {
  const int64_t unused = unused_guarantee();
  pool_->ChangeReserved(guaranteed_blocks - guaranteed_);
  guaranteed_ = guaranteed_blocks;
  pool_->ChangeUnused(unused_guarantee() - unused);
}

void SessionPool::ChangeHeld(int64_t by) {
  held_ += by;
  peak_ = std::max(peak_, held_);
}

}  // namespace luna::kv
