// What holds of every session that can be saved, whoever wrote it down.
#ifndef LUNA_SERVER_STATE_SAVED_SESSION_CHECK_H_
#define LUNA_SERVER_STATE_SAVED_SESSION_CHECK_H_

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "core/engine/saved_session.h"

namespace luna::state {

inline constexpr size_t kMaxSavedTokens = size_t{16} << 20;  // of a history
inline constexpr size_t kMaxSavedTurns = size_t{1} << 18;
inline constexpr size_t kMaxSavedLabelBytes = 128;
inline constexpr size_t kMaxSavedNameBytes = 1024;  // of caller, model digest, numerics

// 32 lower-case hexadecimal digits.
bool IsSessionKey(std::string_view text);

// INVALID_ARGUMENT with the field, the value and the limit, unless:
//   - the key is one; what is text is UTF-8; sizes are within the limits above
//   - the default sampling is within its limits, but for the vocabulary
//   - token ids are not negative
//   - turns lie one behind the other and cover the history: the first begins at 0, each where the
//     one before it ends, the last ends with the history, and in each begin <= body <= answer <=
//     end
//   - byte counts are not negative; counters leave room to count on; times are in the years 1 to
//   9999
absl::Status CheckSavedSession(const engine::SavedSession& session);

}  // namespace luna::state

#endif  // LUNA_SERVER_STATE_SAVED_SESSION_CHECK_H_
