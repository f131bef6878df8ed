// All KV blocks of the server, as ids: who has the bytes is the backend's matter.
#ifndef LUNA_CORE_KV_BLOCK_POOL_H_
#define LUNA_CORE_KV_BLOCK_POOL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace luna::kv {

// Every block is free, cached (computed, held by nobody, taken back at need) or charged (held at
// least once): free + cached + charged = total, counted as it happens and never by a scan. Only a
// SessionPool takes from here. Engine thread only.
class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // A free block, now held once; unset if none is free.
  std::optional<BlockId> Take();
  // One more holder of a block that is held.
  void AddHolder(BlockId id);
  // One holder less; after the last one the block is free.
  void Release(BlockId id);

  int32_t holders(BlockId id) const { return holders_[id.value()]; }
  int32_t total_blocks() const { return static_cast<int32_t>(holders_.size()); }
  int32_t free_blocks() const { return static_cast<int32_t>(free_.size()); }
  int32_t cached_blocks() const { return cached_; }
  int32_t charged_blocks() const { return charged_; }
  int32_t peak_charged_blocks() const { return peak_charged_; }

  // Compares the counters and the free list with `held`, how often each block was found in a table
  // [total_blocks]; appends what differs, in words.
  void CheckInvariants(const std::vector<int32_t>& held,
                       std::vector<std::string>& differences) const;

 private:
  std::vector<int32_t> holders_;  // [total_blocks]
  std::vector<BlockId> free_;     // a stack: the last one given back is the warmest
  int32_t cached_ = 0;
  int32_t charged_ = 0;
  int32_t peak_charged_ = 0;
};

}  // namespace luna::kv

#endif  // LUNA_CORE_KV_BLOCK_POOL_H_
