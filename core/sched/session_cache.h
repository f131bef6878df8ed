// A session's part of the KV cache, as the scheduler sees it.
#ifndef LUNA_CORE_SCHED_SESSION_CACHE_H_
#define LUNA_CORE_SCHED_SESSION_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/kv/block_pool.h"
#include "core/kv/layout.h"
#include "core/kv/prefix_index.h"
#include "core/kv/sequence_kv.h"
#include "core/kv/session_pool.h"

namespace luna::sched {

// Owned by a session; its sequence computes into it, and between turns it stays, until somebody
// needs the blocks. Engine thread only.
struct SessionCache {
  SessionCache(SessionId session, const kv::KvLayout* layout, kv::BlockPool* blocks,
               int64_t quota_blocks, kv::PrefixIndex* index = nullptr, std::string_view scope = {})
      : id(session), pool(blocks, quota_blocks), kv(layout, &pool, index, scope) {}

  // Tokens up to `to_tokens` of `tokens` were computed; counts those that had been computed before.
  void Advance(int to_tokens, std::span<const TokenId> tokens) {
    const int again = std::min(to_tokens, once_computed) - kv.computed_tokens();
    recomputed_tokens += static_cast<uint64_t>(std::max(0, again));
    once_computed = std::max(once_computed, to_tokens);
    kv.Advance(to_tokens, tokens);
  }

  // Takes over what others have computed of `tokens`.
  void Adopt(std::span<const TokenId> tokens) {
    kv.Adopt(tokens);
    once_computed = std::max(once_computed, kv.computed_tokens());
  }

  // Copies what another, which begins alike up to `to_tokens`, has of the next block.
  void CopyPartOf(const SessionCache& other, int to_tokens, std::vector<kv::BlockCopy>& copies) {
    kv.CopyPartOf(other.kv, to_tokens, copies);
    once_computed = std::max(once_computed, kv.computed_tokens());
  }

  // Begins as another session's cache does.
  void ForkFrom(const SessionCache& other, int num_tokens) {
    kv.ForkFrom(other.kv, num_tokens);
    once_computed = kv.computed_tokens();
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
  uint64_t served_tokens = 0;  // see FairShares
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_SESSION_CACHE_H_
