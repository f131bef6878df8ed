// How a turn joins a conversation, and what becomes of the history when it ends. A turn is atomic:
// it commits as a whole or leaves nothing behind.
#ifndef LUNA_CORE_ENGINE_TURN_H_
#define LUNA_CORE_ENGINE_TURN_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/engine/request.h"
#include "core/engine/session.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace luna::engine {

// What the engine knows of how conversations look. Borrows.
struct TurnStyle {
  const text::Tokenizer* tokenizer = nullptr;
  const text::TurnMarkers* markers = nullptr;
  const std::vector<TokenId>* default_opening = nullptr;
};

// A turn before its answer.
struct TurnDraft {
  std::vector<TokenId> prompt;  // history that stays, what joins, what is new
  int dropped_turns = 0;        // that leave from the front for it
  int opening_tokens = 0;       // at the front, whatever is dropped
  bool has_system = false;      // as in Session
  int kept_tokens = 0;          // at the front, the same as the history's
  int begin = 0, body = 0;      // as in TurnRecord, within `prompt`
  std::vector<TokenId> after_system;
};

// Joins `input` to the session's history. With ContextPolicy::kDropOldest, as few whole turns as
// possible leave from the front so that the prompt is at most `room` tokens; if all of them do not
// suffice, the draft is longer than that, as it may be with kRefuse. INVALID_ARGUMENT if there is
// no token at all.
absl::StatusOr<TurnDraft> DraftTurn(const Session& session, const TurnInput& input,
                                    const TurnStyle& style, int64_t room);

// The cache forgets what is not a beginning of the draft, and its last token, which is always
// computed.
void PrepareCache(Session& session, const TurnDraft& draft);

// `tokens`: the draft's prompt and the answer. A turn that added no token is none.
void CommitTurn(Session& session, const TurnDraft& draft, std::span<const TokenId> tokens,
                const std::string& answer);
// The cache forgets what is not history.
void DiscardTurn(Session& session, const TurnDraft& draft);

// Only the first `num_turns` turns of all stay. They must be in the history.
void TruncateTurns(Session& session, uint32_t num_turns);

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_TURN_H_
