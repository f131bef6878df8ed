// The caches that no running sequence computes into: the first to give way.
#ifndef LUNA_CORE_SCHED_IDLE_CACHES_H_
#define LUNA_CORE_SCHED_IDLE_CACHES_H_

#include <cstdint>
#include <vector>

#include "core/kv/block_pool.h"
#include "core/sched/session_cache.h"

namespace luna::sched {

// In the order of their last use. Borrows the pool and the caches. Engine thread only.
class IdleCaches {
 public:
  explicit IdleCaches(const kv::BlockPool* pool) : pool_(pool) {}

  // The most recently used from now on. Nobody computes into it.
  void Add(SessionCache* cache);
  void Remove(SessionCache* cache);

  // Makes at least `num_blocks` blocks of the pool available, if what sessions hold above their
  // guarantees is enough: from the least recently used, its last tokens first. What is shared goes
  // only where that does not suffice, since it is a gain only when its last holder lets go.
  void MakeAvailable(int64_t num_blocks);

 private:
  void Reclaim(int64_t num_blocks, bool alone);

  const kv::BlockPool* const pool_;
  std::vector<SessionCache*> caches_;  // least recently used first
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_IDLE_CACHES_H_
