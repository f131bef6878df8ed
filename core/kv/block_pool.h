// All KV blocks of the server, as ids: who has the bytes is the backend's matter.
#ifndef LUNA_CORE_KV_BLOCK_POOL_H_
#define LUNA_CORE_KV_BLOCK_POOL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"

namespace luna::kv {

// The contents of one block into another's place.
struct BlockCopy {
  BlockId from;
  BlockId to;
};

// Every block is free, cached (kept for whoever begins alike, held by nobody, taken back at need)
// or charged (held at least once): free + cached + charged = total. A holder may protect a block;
// one that is held and that nobody protects can be had by asking its holders to let go. All of this
// is counted as it happens and never by a scan. Only a SessionPool takes from here. Engine thread
// only.
class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Is told of a cached block that is taken for something else; it must not call the pool.
  void set_on_recycle(std::function<void(BlockId)> on_recycle) {
    on_recycle_ = std::move(on_recycle);
  }

  // A free block, or else the cached one that nobody has held for the longest time; now held once.
  // Unset if there is neither.
  std::optional<BlockId> Take();
  // One more holder of a block that is held or cached.
  void AddHolder(BlockId id);
  // One holder less; after the last one the block is cached if it is kept, or else free.
  void Release(BlockId id);

  // What a held block contains is of use to others. Idempotent.
  void Keep(BlockId id);
  // It is no more; one that is cached becomes free. Idempotent.
  void Unkeep(BlockId id);
  bool kept(BlockId id) const { return blocks_[id.value()].kept; }

  // Each by a holder, and taken back before it lets go.
  void Protect(BlockId id);
  void Unprotect(BlockId id);
  int32_t protectors(BlockId id) const { return blocks_[id.value()].protectors; }

  // Sessions' guarantees, and the part of them that is owed: not protected by its session.
  void ChangeReserved(int64_t by) { reserved_ += by; }
  void ChangeUnused(int64_t by) { unused_ += by; }

  int32_t holders(BlockId id) const { return blocks_[id.value()].holders; }
  int32_t total_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t free_blocks() const { return static_cast<int32_t>(free_.size()); }
  int32_t cached_blocks() const { return cached_; }
  int32_t charged_blocks() const { return charged_; }
  int32_t peak_charged_blocks() const { return peak_charged_; }
  int64_t reserved_blocks() const { return reserved_; }
  // How many Takes in a row would succeed.
  int32_t available_blocks() const { return free_blocks() + cached_; }
  // Held, and protected by nobody.
  int32_t unprotected_blocks() const { return unprotected_; }
  // What guarantees leave of the blocks that are, or can be made, available; negative where what a
  // session was guaranteed is held by others, who have to give it back.
  int64_t surplus_blocks() const { return int64_t{available_blocks()} + unprotected_ - unused_; }
  int64_t unused_guarantees() const { return unused_; }

  // What was found in the tables, for each block [total_blocks].
  struct Found {
    int32_t holders = 0;
    int32_t protectors = 0;
    bool kept = false;
  };
  // Compares all counters and lists with it; appends what differs, in words.
  void CheckInvariants(const std::vector<Found>& found,
                       std::vector<std::string>& differences) const;

 private:
  static constexpr int32_t kNone = -1;
  struct Block {
    int32_t holders = 0;
    int32_t protectors = 0;
    bool kept = false;
    int32_t older = kNone, newer = kNone;  // in the list of cached blocks
  };

  void Cache(int32_t id);
  void Uncache(int32_t id);

  std::vector<Block> blocks_;
  std::vector<BlockId> free_;                // a stack: the last one given back is the warmest
  int32_t oldest_ = kNone, newest_ = kNone;  // of the cached blocks, in the order of their release
  int32_t cached_ = 0;
  int32_t charged_ = 0;
  int32_t unprotected_ = 0;
  int32_t peak_charged_ = 0;
  int64_t reserved_ = 0;
  int64_t unused_ = 0;
  std::function<void(BlockId)> on_recycle_;
};

}  // namespace luna::kv

#endif  // LUNA_CORE_KV_BLOCK_POOL_H_
