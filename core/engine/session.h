// A conversation: its history as token ids, its limits, its cache.
#ifndef LUNA_CORE_ENGINE_SESSION_H_
#define LUNA_CORE_ENGINE_SESSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/engine/saved_session.h"
#include "core/engine/session_info.h"
#include "core/sample/overrides.h"
#include "core/sched/session_cache.h"

namespace luna::engine {

struct Generation;

// Engine thread only.
struct Session {
  Session(SessionId session, const kv::KvLayout* layout, kv::BlockPool* blocks,
          int64_t quota_blocks, kv::PrefixIndex* index, std::string_view prefix_scope)
      : id(session),
        scope(prefix_scope),
        cache(session, layout, blocks, quota_blocks, index, prefix_scope) {}

  uint32_t turn() const { return dropped_turns + static_cast<uint32_t>(turns.size()); }
  // The tokens that opened the conversation; they stay when turns leave from the front.
  int opening_tokens() const { return turns.empty() ? 0 : turns.front().body; }

  const SessionId id;
  const std::string scope;  // whom it shares prefixes with
  std::string key;
  std::string caller;
  std::string label;
  bool ephemeral = false;  // of a one-off request: closed at its end
  sample::SamplingOverrides default_sampling;
  std::optional<SystemPrompt> system;
  ContextPolicy context_policy = ContextPolicy::kRefuse;

  std::vector<TokenId> history;
  std::vector<TurnRecord> turns;  // those that are in the history
  bool has_system = false;        // the opening holds a system prompt, not the model's default one
  uint32_t dropped_turns = 0;     // left from the front since creation or reset
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
