// A session's part of the KV cache, as the scheduler sees it.
#ifndef LUNA_CORE_SCHED_SESSION_CACHE_H_
#define LUNA_CORE_SCHED_SESSION_CACHE_H_

#include <algorithm>
#include <cstdint>

#include "core/base/ids.h"
#include "core/kv/block_pool.h"
#include "core/kv/layout.h"
#include "core/kv/sequence_kv.h"
#include "core/kv/session_pool.h"

namespace luna::sched {

// Owned by a session; its sequence computes into it, and between turns it stays, until somebody
// needs the blocks. Engine thread only.
struct SessionCache {
  SessionCache(SessionId session, const kv::KvLayout* layout, kv::BlockPool* blocks,
               int64_t quota_blocks)
      : id(session), pool(blocks, quota_blocks), kv(layout, &pool) {}

  // Tokens up to `to_tokens` were computed; counts those that had been computed before.
  void Advance(int to_tokens) {
    const int again = std::min(to_tokens, once_computed) - kv.computed_tokens();
    recomputed_tokens += static_cast<uint64_t>(std::max(0, again));
    once_computed = std::max(once_computed, to_tokens);
    kv.Advance(to_tokens);
  }

  // The text changes from `to_tokens` on.
  void Forget(int to_tokens) {
    once_computed = std::min(once_computed, to_tokens);
    kv.Truncate(to_tokens);
  }

  const SessionId id;
  kv::SessionPool pool;
  kv::SequenceKv kv;
  int once_computed = 0;   // tokens of the present text that have ever been computed
  uint64_t evictions = 0;  // times blocks were taken from it
  uint64_t recomputed_tokens = 0;
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_SESSION_CACHE_H_
