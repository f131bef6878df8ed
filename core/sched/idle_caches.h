// The caches that no running sequence computes into: the first to give way.
#ifndef LUNA_CORE_SCHED_IDLE_CACHES_H_
#define LUNA_CORE_SCHED_IDLE_CACHES_H_

#include <cstdint>
#include <vector>

#include "core/sched/session_cache.h"

namespace luna::sched {

// In the order of their last use. Borrows the caches. Engine thread only.
class IdleCaches {
 public:
  // The most recently used from now on.
  void Add(SessionCache* cache);
  void Remove(SessionCache* cache);

  // Blocks that could be taken: what is held above the guarantees.
  int64_t Reclaimable() const;
  // Takes at least `num_blocks`, or all there are: from the least recently used, its last tokens
  // first.
  void Reclaim(int64_t num_blocks);

 private:
  std::vector<SessionCache*> caches_;  // least recently used first
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_IDLE_CACHES_H_
