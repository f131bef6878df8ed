#include "core/sched/idle_caches.h"

#include <algorithm>

#include "core/base/check.h"

namespace luna::sched {
namespace {

int64_t AboveGuarantee(const SessionCache& cache) {
  return std::max<int64_t>(0, cache.pool.held_blocks() - cache.pool.reserved_blocks());
}

}  // namespace

void IdleCaches::Add(SessionCache* cache) { caches_.push_back(cache); }

void IdleCaches::Remove(SessionCache* cache) {
  const auto it = std::find(caches_.begin(), caches_.end(), cache);
  LUNA_CHECK(it != caches_.end()) << "session " << cache->id << " is not idle";
  caches_.erase(it);
}

int64_t IdleCaches::Reclaimable() const {
  int64_t blocks = 0;
  for (const SessionCache* cache : caches_) blocks += AboveGuarantee(*cache);
  return blocks;
}

void IdleCaches::Reclaim(int64_t num_blocks) {
  for (SessionCache* cache : caches_) {
    if (num_blocks <= 0) return;
    const int64_t wanted = std::min(num_blocks, AboveGuarantee(*cache));
    if (wanted == 0) continue;
    const int64_t before = cache->pool.held_blocks();
    cache->kv.GiveBackTail(wanted);
    ++cache->evictions;
    num_blocks -= before - cache->pool.held_blocks();
  }
}

}  // namespace luna::sched
