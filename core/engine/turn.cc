#include "core/engine/turn.h"

#include <array>
#include <utility>

#include "core/base/status_details.h"

namespace luna::engine {
namespace {

using Tokens = std::span<const TokenId>;

// What a prompt is made of, in this order. Borrows from the session, the input and the style.
struct PromptParts {
  Tokens opening;
  Tokens first;    // the first turn that stays, where turns before it leave: its prompt,
  Tokens history;  // and all that was said since
  Tokens end;      // of the last answer, if it did not end itself,
  Tokens after_end;
  Tokens turn;  // what is new

  std::array<Tokens, 6> All() const { return {opening, first, history, end, after_end, turn}; }
  int64_t size() const {
    int64_t total = 0;
    for (const Tokens part : All()) total += static_cast<int64_t>(part.size());
    return total;
  }
};

// The session's system prompt opens the conversation if its first turn does not bring an opening.
bool OpensWithSessions(const Session& session, const TurnInput& input) {
  return !input.raw && !input.opening.has_value() && session.system.has_value();
}

Tokens NewOpening(const Session& session, const TurnInput& input, const TurnStyle& style) {
  if (input.raw) return {};
  if (input.opening.has_value()) return *input.opening;
  if (session.system.has_value()) return session.system->opening;
  return *style.default_opening;
}

// The turn as it stands behind the opening.
Tokens FirstTurn(const TurnInput& input, bool opening_has_system) {
  const bool follows = opening_has_system && input.system_tokens == 0;
  return follows && !input.after_system.empty() ? input.after_system : input.tokens;
}

// The session has turns, and the oldest `dropped` of them leave.
PromptParts Parts(const Session& session, const TurnInput& input, const TurnStyle& style,
                  int dropped) {
  const Tokens history(session.history);
  PromptParts parts;
  parts.opening = history.first(session.opening_tokens());
  if (dropped == static_cast<int>(session.turns.size())) {
    // A turn with a system message of its own opens the conversation anew.
    if (input.opening.has_value()) parts.opening = *input.opening;
    parts.turn = FirstTurn(input, !input.opening.has_value() && session.has_system);
    return parts;
  }
  const TurnRecord& first = session.turns[dropped];
  parts.first = dropped > 0 && !first.after_system.empty()
                    ? Tokens(first.after_system)
                    : history.subspan(first.body, first.answer - first.body);
  parts.history = history.subspan(first.answer);
  if (!input.raw) {
    // An answer that ended by itself has its end token already. Turns may all be without tokens.
    const bool ended = !history.empty() && style.tokenizer->IsEnd(history.back());
    if (!ended) parts.end = style.markers->end;
    parts.after_end = style.markers->after_end;
  }
  parts.turn = input.tokens;
  return parts;
}

// The conversation's first turn.
PromptParts FirstParts(const Session& session, const TurnInput& input, const TurnStyle& style) {
  PromptParts parts;
  parts.opening = NewOpening(session, input, style);
  parts.turn = FirstTurn(input, OpensWithSessions(session, input));
  return parts;
}

}  // namespace

absl::StatusOr<TurnDraft> DraftTurn(const Session& session, const TurnInput& input,
                                    const TurnStyle& style, int64_t room) {
  const int turns = static_cast<int>(session.turns.size());
  TurnDraft draft;
  PromptParts parts =
      turns == 0 ? FirstParts(session, input, style) : Parts(session, input, style, 0);
  if (session.context_policy == ContextPolicy::kDropOldest) {
    while (draft.dropped_turns < turns && parts.size() > room) {
      parts = Parts(session, input, style, ++draft.dropped_turns);
    }
  }
  if (parts.size() == 0) {
    return InvalidField("input", "the prompt has no tokens; it takes at least 1");
  }
  draft.prompt.reserve(parts.size());
  for (const Tokens part : parts.All()) {
    draft.prompt.insert(draft.prompt.end(), part.begin(), part.end());
  }

  const int opening = static_cast<int>(parts.opening.size());
  const int before_turn = static_cast<int>(parts.size() - static_cast<int64_t>(parts.turn.size()));
  const bool is_first = draft.dropped_turns == turns;
  const bool opens = turns == 0 || (is_first && input.opening.has_value());
  draft.opening_tokens = opens ? opening + input.system_tokens : opening;
  draft.has_system =
      opens ? input.system_tokens > 0 || OpensWithSessions(session, input) : session.has_system;
  if (turns > 0 && !opens) {
    draft.kept_tokens =
        draft.dropped_turns == 0 ? static_cast<int>(session.history.size()) : opening;
  }
  draft.begin =
      is_first ? 0 : before_turn - static_cast<int>(parts.end.size() + parts.after_end.size());
  draft.body = is_first ? draft.opening_tokens : before_turn;
  if (draft.has_system) draft.after_system = input.after_system;
  return draft;
}

void PrepareCache(Session& session, const TurnDraft& draft) {
  if (draft.dropped_turns > 0) session.cache.Forget(draft.kept_tokens);
  session.cache.kv.Truncate(static_cast<int>(draft.prompt.size()) - 1);
}

void CommitTurn(Session& session, const TurnDraft& draft, std::span<const TokenId> tokens,
                const std::string& answer) {
  if (draft.dropped_turns == 0 && tokens.size() == session.history.size()) return;
  if (draft.dropped_turns > 0) {
    session.turns.erase(session.turns.begin(), session.turns.begin() + draft.dropped_turns);
    session.dropped_turns += draft.dropped_turns;
    if (!session.turns.empty()) {
      TurnRecord& first = session.turns.front();
      const int prompt = first.after_system.empty() ? first.answer - first.body
                                                    : static_cast<int>(first.after_system.size());
      const int shift = first.answer - (draft.opening_tokens + prompt);
      for (TurnRecord& turn : session.turns) {
        turn.begin -= shift;
        turn.body -= shift;
        turn.answer -= shift;
        turn.end -= shift;
      }
      first.begin = 0;
      first.body = draft.opening_tokens;
    }
  }
  session.history.assign(tokens.begin(), tokens.end());
  session.has_system = draft.has_system;
  session.turns.push_back({.begin = draft.begin,
                           .body = draft.body,
                           .answer = static_cast<int>(draft.prompt.size()),
                           .end = static_cast<int>(tokens.size()),
                           .text = answer,
                           .after_system = draft.after_system});
}

void DiscardTurn(Session& session, const TurnDraft& draft) {
  session.cache.Forget(draft.dropped_turns > 0 ? draft.kept_tokens
                                               : static_cast<int>(session.history.size()));
}

void TruncateTurns(Session& session, uint32_t num_turns) {
  const uint32_t kept = num_turns < session.dropped_turns ? 0 : num_turns - session.dropped_turns;
  if (num_turns == 0) session.dropped_turns = 0;
  session.turns.resize(kept);
  session.history.resize(kept == 0 ? 0 : session.turns.back().end);
  session.cache.Forget(static_cast<int>(session.history.size()));
}

}  // namespace luna::engine
