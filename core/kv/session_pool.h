// One session's own part of the server's block pool.
#ifndef LUNA_CORE_KV_SESSION_POOL_H_
#define LUNA_CORE_KV_SESSION_POOL_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/base/ids.h"
#include "core/kv/block_pool.h"

namespace luna::kv {

// The only way a sequence gets a block, and `GiveBack` is the only way it goes. Counts the blocks
// it holds in full, shared ones too; holds at most its quota (more only after the quota was
// lowered: until its owner shrinks). What others may take never includes the part of its guarantee
// that it does not hold. Borrows the server's pool. Engine thread only.
class SessionPool {
 public:
  SessionPool(BlockPool* pool, int64_t quota_blocks) : pool_(pool), quota_(quota_blocks) {}
  ~SessionPool();
  SessionPool(const SessionPool&) = delete;
  SessionPool& operator=(const SessionPool&) = delete;

  // Unset if the quota is used up, or what is left of the pool is guaranteed to others.
  std::optional<BlockId> Take();
  // Another block in place of one that others hold too. Unset as above, but for the quota, since
  // what it holds stays as much.
  std::optional<BlockId> TakeInsteadOf(BlockId shared);
  // Holds a block that another session holds, or that is cached. The quota is the caller's matter:
  // who has just given another block back may be above it, since it was lowered.
  void Share(BlockId id);
  void GiveBack(BlockId id);

  // A block that it holds is not to be had for others, and back: by BlockPool.
  void Protect(BlockId id) {
    ChangeProtected(+1, [&] { pool_->Protect(id); });
  }
  void Unprotect(BlockId id) {
    ChangeProtected(-1, [&] { pool_->Unprotect(id); });
  }

  // How many Takes in a row would succeed now, and how many if the quota allowed it.
  int64_t Takeable() const { return std::min(left_in_quota(), Available()); }
  int64_t Available() const;

  BlockPool& blocks() const { return *pool_; }
  int64_t held_blocks() const { return held_; }
  int64_t peak_blocks() const { return peak_; }
  int64_t quota_blocks() const { return quota_; }
  int64_t left_in_quota() const { return std::max<int64_t>(0, quota_ - held_); }
  // Blocks that are kept for this session whatever the others need; admitted by the engine.
  int64_t guaranteed_blocks() const { return guaranteed_; }
  // What it does not protect of them: so much is kept free for it. A block that it holds and does
  // not protect may be taken from it, and then it is still owed.
  int64_t unused_guarantee() const { return std::max<int64_t>(0, guaranteed_ - protected_); }
  void set_quota_blocks(int64_t quota_blocks) { quota_ = quota_blocks; }
  void set_guaranteed_blocks(int64_t guaranteed_blocks);

 private:
  void ChangeHeld(int64_t by);
  template <typename Change>
  void ChangeProtected(int by, Change change) {
    const int64_t unused = unused_guarantee();
    change();
    protected_ += by;
    pool_->ChangeUnused(unused_guarantee() - unused);
  }

  BlockPool* const pool_;
  int64_t quota_;
  int64_t guaranteed_ = 0;
  int64_t held_ = 0;
  int64_t protected_ = 0;
  int64_t peak_ = 0;
};

}  // namespace luna::kv

#endif  // LUNA_CORE_KV_SESSION_POOL_H_
