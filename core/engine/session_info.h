// What a caller may set of a session, and what it is told about one.
#ifndef LUNA_CORE_ENGINE_SESSION_INFO_H_
#define LUNA_CORE_ENGINE_SESSION_INFO_H_

#include <cstdint>
#include <optional>
#include <string>
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

struct SessionSpec {
  std::string caller;
  std::string label;
  sample::SamplingOverrides default_sampling;
  std::optional<SystemPrompt> system;
  std::optional<int64_t> quota_bytes;  // unset: the server's default
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
  absl::Time created, last_active;
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_SESSION_INFO_H_
