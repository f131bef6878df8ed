// What a caller may set of a session, and what it is told about one.
#ifndef LUNA_CORE_ENGINE_SESSION_INFO_H_
#define LUNA_CORE_ENGINE_SESSION_INFO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/sample/overrides.h"

namespace luna::engine {

enum class ContextPolicy { kRefuse, kDropOldest };
enum class SessionState { kIdle, kWaiting, kPrefill, kDecode };

// A system prompt as text, for reports, and as the tokens that open the conversation.
struct SystemPrompt {
  std::string text;
  std::vector<TokenId> opening;
};

// How far sessions that begin alike share what is computed. What is cached of a prompt can be told
// from the time to its first token, so who shares can tell what others have asked.
enum class PrefixSharing { kServer, kPeer, kSession };

struct SessionSpec {
  std::string caller = {};
  std::string label = {};
  sample::SamplingOverrides default_sampling = {};
  std::optional<SystemPrompt> system = {};
  std::optional<int64_t> quota_bytes = {};  // unset: the server's default
  ContextPolicy context_policy = ContextPolicy::kRefuse;
};

// Unset: stays as it is.
struct SessionUpdate {
  std::optional<std::string> label;
  std::optional<sample::SamplingOverrides> default_sampling;
  std::optional<SystemPrompt> system;  // FAILED_PRECONDITION once there is history
  std::optional<int64_t> quota_bytes;
  std::optional<ContextPolicy> context_policy;
};

struct ForkSpec {
  std::string caller = {};
  std::optional<uint32_t> at_turn = {};   // unset: all turns
  std::optional<std::string> label = {};  // unset: the session's
};

struct RestoreSpec {
  std::string caller = {};  // whose it is now; empty: whose it was
  // From a file that this server wrote: limits beyond the defaults hold, as they did.
  bool trusted = false;
  // By the server at its start: nobody was active, and nothing has changed (on_changed).
  bool resumed = false;
};

// A session by its key, or by its number for those who need not know the key.
using SessionRef = std::variant<std::string, SessionId>;

// What an operator sets. Unset: stays as it is.
struct LimitsUpdate {
  std::optional<int64_t> quota_bytes = {};
  std::optional<int64_t> guarantee_bytes = {};
};
struct SessionLimits {
  int64_t quota_bytes = 0;
  int64_t guarantee_bytes = 0;
};

struct Eviction {
  int64_t evicted_bytes = 0;
  int64_t charged_bytes = 0;  // that it still holds
};

struct SessionInfo {
  SessionId id;
  std::string key;  // 128 random bits, hex: whoever has it may use the session
  std::string caller;
  std::string label;
  uint32_t turn = 0;
  uint32_t tokens = 0;
  uint32_t context_left = 0;
  sample::SamplingOverrides default_sampling;
  std::string system;
  int64_t guarantee_bytes = 0;
  int64_t quota_bytes = 0;
  ContextPolicy context_policy = ContextPolicy::kRefuse;
  SessionState state = SessionState::kIdle;
  std::string last_text;
  uint32_t dropped_turns = 0;
  bool other_numerics = false;  // restored; its next words may differ from what would have been
  absl::Time created, last_active;
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_SESSION_INFO_H_
