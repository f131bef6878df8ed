// A conversation with its limits and its cache.
#ifndef LUNA_CORE_ENGINE_SESSION_H_
#define LUNA_CORE_ENGINE_SESSION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/engine/saved_session.h"
#include "core/engine/session_info.h"
#include "core/sched/session_cache.h"

namespace luna::engine {

struct Generation;

// Engine thread only.
struct Session : Conversation {
  Session(SessionId session, const kv::KvLayout* layout, kv::BlockPool* blocks,
          int64_t quota_blocks, kv::PrefixIndex* index, std::string_view prefix_scope)
      : id(session),
        scope(prefix_scope),
        cache(session, layout, blocks, quota_blocks, index, prefix_scope) {}

  const SessionId id;
  const std::string scope;  // whom it shares prefixes with
  std::string key;
  std::string caller;
  bool ephemeral = false;  // of a one-off request: closed at its end
  SeedPosition seeds;
  bool other_numerics = false;  // as in SessionInfo
  Generation* live = nullptr;   // the turn in progress
  sched::SessionCache cache;    // of a beginning of the history, or of the turn in progress

  uint64_t generated_tokens = 0;
  uint32_t answer_tokens = 0;  // of the current or last answer
  absl::Time answer_first = absl::InfinitePast(), answer_last = absl::InfinitePast();
  absl::Time created, last_active;
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_SESSION_H_
