#include "core/engine/turn.h"

#include <algorithm>
#include <utility>

#include "core/base/status_details.h"

namespace luna::engine {
namespace {

void AppendTo(std::vector<TokenId>& out, std::span<const TokenId> tokens) {
  out.insert(out.end(), tokens.begin(), tokens.end());
}

// What stands between the history and the new turn.
std::vector<TokenId> Joint(const Session& session, const TurnInput& input, const TurnStyle& style) {
  std::vector<TokenId> joint;
  if (input.raw) return joint;
  if (session.turns.empty()) {
    if (input.opening.has_value()) return *input.opening;
    if (session.system.has_value()) return session.system->opening;
    return *style.default_opening;
  }
  // An answer that ended by itself has its end token already.
  if (!style.tokenizer->IsEnd(session.history.back())) AppendTo(joint, style.markers->end);
  AppendTo(joint, style.markers->after_end);
  return joint;
}

// The history without its oldest `dropped` turns; the first that stays begins right after the
// opening.
void AppendHistory(const Session& session, int dropped, std::vector<TokenId>& out) {
  const std::span<const TokenId> history(session.history);
  if (dropped == 0) return AppendTo(out, history);
  AppendTo(out, history.first(session.opening_tokens()));
  if (dropped < static_cast<int>(session.turns.size())) {
    AppendTo(out, history.subspan(session.turns[dropped].body));
  }
}

int64_t HistoryTokens(const Session& session, int dropped) {
  const int64_t all = static_cast<int64_t>(session.history.size());
  if (dropped == 0) return all;
  const int64_t kept =
      dropped < static_cast<int>(session.turns.size()) ? all - session.turns[dropped].body : 0;
  return session.opening_tokens() + kept;
}

}  // namespace

absl::StatusOr<TurnDraft> DraftTurn(const Session& session, const TurnInput& input,
                                    const TurnStyle& style, int64_t room) {
  std::vector<TokenId> joint = Joint(session, input, style);
  const int turns = static_cast<int>(session.turns.size());
  TurnDraft draft;
  const auto tokens_in_all = [&] {
    // With no turn before it, the opening alone is what it joins.
    const size_t joining = turns > 0 && draft.dropped_turns == turns ? 0 : joint.size();
    return HistoryTokens(session, draft.dropped_turns) +
           static_cast<int64_t>(joining + input.tokens.size());
  };
  if (session.context_policy == ContextPolicy::kDropOldest) {
    while (draft.dropped_turns < turns && tokens_in_all() > room) ++draft.dropped_turns;
  }
  if (tokens_in_all() == 0) {
    return InvalidField("input", "the prompt has no tokens; it takes at least 1");
  }
  if (turns > 0 && draft.dropped_turns == turns) joint.clear();

  draft.prompt.reserve(tokens_in_all());
  AppendHistory(session, draft.dropped_turns, draft.prompt);
  const bool is_first = draft.dropped_turns == turns;
  draft.begin = is_first ? 0 : static_cast<int>(draft.prompt.size());
  AppendTo(draft.prompt, joint);
  draft.body = static_cast<int>(draft.prompt.size());
  AppendTo(draft.prompt, input.tokens);
  draft.opening_tokens = turns > 0 ? session.opening_tokens() : draft.body;
  return draft;
}

void PrepareCache(Session& session, const TurnDraft& draft) {
  if (draft.dropped_turns > 0) session.cache.Forget(draft.opening_tokens);
  session.cache.kv.Truncate(static_cast<int>(draft.prompt.size()) - 1);
}

void CommitTurn(Session& session, const TurnDraft& draft, std::span<const TokenId> tokens,
                const std::string& answer) {
  if (draft.dropped_turns > 0) {
    session.turns.erase(session.turns.begin(), session.turns.begin() + draft.dropped_turns);
    session.dropped_turns += draft.dropped_turns;
    const int shift = session.turns.empty() ? 0 : session.turns.front().body - draft.opening_tokens;
    for (TurnRecord& turn : session.turns) {
      turn.begin -= shift;
      turn.body -= shift;
      turn.end -= shift;
    }
    if (!session.turns.empty()) session.turns.front().begin = 0;
  }
  session.history.assign(tokens.begin(), tokens.end());
  session.turns.push_back({draft.begin, draft.body, static_cast<int>(tokens.size()), answer});
}

void DiscardTurn(Session& session, const TurnDraft& draft) {
  session.cache.Forget(draft.dropped_turns > 0 ? draft.opening_tokens
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
