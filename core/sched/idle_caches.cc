#include "core/sched/idle_caches.h"

#include <algorithm>

#include "core/base/check.h"

namespace luna::sched {

void IdleCaches::Add(SessionCache* cache) {
  cache->kv.SetRunning(false);
  caches_.push_back(cache);
}

void IdleCaches::Remove(SessionCache* cache) {
  const auto it = std::find(caches_.begin(), caches_.end(), cache);
  LUNA_CHECK(it != caches_.end()) << "session " << cache->id << " is not idle";
  caches_.erase(it);
}

void IdleCaches::MakeAvailable(int64_t num_blocks) {
  Reclaim(num_blocks, /*alone=*/true);
  Reclaim(num_blocks, /*alone=*/false);
}

void IdleCaches::Reclaim(int64_t num_blocks, bool alone) {
  for (SessionCache* cache : caches_) {
    if (pool_->available_blocks() >= num_blocks) return;
    bool any = false;
    while (pool_->available_blocks() < num_blocks && cache->kv.CanGiveBackLast(alone)) {
      cache->kv.GiveBackLast();
      any = true;
    }
    cache->evictions += any ? 1 : 0;
  }
}

}  // namespace luna::sched
