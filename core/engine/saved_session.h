// What of a session outlives the server: everything but its cache, which history computes again.
#ifndef LUNA_CORE_ENGINE_SAVED_SESSION_H_
#define LUNA_CORE_ENGINE_SAVED_SESSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/engine/session_info.h"
#include "core/sample/overrides.h"

namespace luna::engine {

// Where one committed turn lies in the history.
struct TurnRecord {
  int begin = 0;     // what joins it to what was before: the opening, or the end of the last answer
  int body = 0;      // what the user said
  int answer = 0;    // what the model said
  int end = 0;       // behind the answer
  std::string text;  // the answer
  std::vector<TokenId> after_system;  // [body, answer) should it become the first (TurnInput)
};

// The seeds of a session's turns that ask for none: the n-th is derived from `base` and n.
struct SeedPosition {
  uint64_t base = 0;
  uint64_t drawn = 0;  // so far
};

// What a session is about, wherever it lives: a fork begins with it, a saved session keeps it.
struct Conversation {
  std::string label;
  sample::SamplingOverrides default_sampling;
  std::optional<SystemPrompt> system;
  ContextPolicy context_policy = ContextPolicy::kRefuse;

  std::vector<TokenId> history;
  std::vector<TurnRecord> turns;  // those that are in the history
  bool has_system = false;        // the opening holds a system prompt, not the model's default one
  uint32_t dropped_turns = 0;     // left from the front since creation or reset

  uint32_t turn() const { return dropped_turns + static_cast<uint32_t>(turns.size()); }
  // The tokens that opened the conversation; they stay when turns leave from the front.
  int opening_tokens() const { return turns.empty() ? 0 : turns.front().body; }
};

struct SavedSession : Conversation {
  std::string model_digest;  // of the model whose tokens these are
  std::string numerics;      // under which they were made
  std::string key;
  std::string caller;
  int64_t quota_bytes = 0;
  int64_t guarantee_bytes = 0;
  SeedPosition seeds;
  uint64_t generated_tokens = 0;
  absl::Time created, last_active;
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_SAVED_SESSION_H_
