// Sessions that begin with another's turns: forks, and those that were saved.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "core/engine/engine_impl.h"
#include "core/engine/turn.h"

namespace luna::engine {

absl::StatusOr<SessionInfo> Engine::Impl::ForkSession(const std::string& key,
                                                      const ForkSpec& spec) {
  if (draining_) return absl::UnavailableError("the server is draining; it takes nothing new");
  LUNA_ASSIGN_OR_RETURN(const Session* origin, FindSession(key));
  LUNA_RETURN_IF_ERROR(CheckNotLive(*origin, "a fork"));
  const uint32_t at_turn = spec.at_turn.value_or(origin->turn());
  LUNA_RETURN_IF_ERROR(CheckTurn(*origin, at_turn, "at_turn"));
  const kv::SessionPool& limits = origin->cache.pool;
  LUNA_RETURN_IF_ERROR(CheckGuarantee(limits.guaranteed_blocks(), limits.quota_blocks(), 0));
  LUNA_RETURN_IF_ERROR(MakeRoomForSession(origin));

  Session* session = sessions_.Create({.caller = spec.caller,
                                       .scope = origin->scope,
                                       .quota_blocks = limits.quota_blocks(),
                                       .now = now_});
  static_cast<Conversation&>(*session) = *origin;
  if (spec.label.has_value()) session->label = *spec.label;
  session->other_numerics = origin->other_numerics;
  session->seeds.base = NextSeed();
  TruncateTurns(*session, at_turn);
  session->cache.ForkFrom(origin->cache, static_cast<int>(session->history.size()));
  SetGuarantee(*session, limits.guaranteed_blocks());
  scheduler_.AddCache(&session->cache);
  NoteChanged(*session);
  return InfoOf(*session);
}

absl::StatusOr<SavedSession> Engine::Impl::SaveSession(const std::string& key) const {
  LUNA_ASSIGN_OR_RETURN(const Session* session, FindSession(key));
  LUNA_RETURN_IF_ERROR(CheckNotLive(*session, "saving it"));
  return Export(*session);
}

SavedSession Engine::Impl::Export(const Session& session) const {
  const int64_t block_bytes = options_.layout.block_bytes();
  SavedSession saved;
  static_cast<Conversation&>(saved) = session;
  saved.model_digest = options_.model_digest;
  // What was made under other numerics stays marked, wherever it goes.
  saved.numerics = session.other_numerics ? "" : backend_->info().numerics;
  saved.key = session.key;
  saved.caller = session.caller;
  saved.quota_bytes = session.cache.pool.quota_blocks() * block_bytes;
  saved.guarantee_bytes = session.cache.pool.guaranteed_blocks() * block_bytes;
  saved.seeds = session.seeds;
  saved.generated_tokens = session.generated_tokens;
  saved.created = session.created;
  saved.last_active = session.last_active;
  return saved;
}

absl::Status Engine::Impl::CheckSaved(const SavedSession& saved) const {
  if (saved.model_digest != options_.model_digest) {
    return absl::FailedPreconditionError(
        absl::StrCat("the session was saved with the model of digest ", saved.model_digest,
                     "; this server has ", options_.model_digest));
  }
  if (sessions_.Find(saved.key) != nullptr) {
    return WithField(absl::AlreadyExistsError("a session with the saved one's id lives"),
                     "session_id");
  }
  const auto check_tokens = [this](const std::vector<TokenId>& tokens, const char* of) {
    LUNA_RETURN_IF_ERROR(CheckFitsContext(tokens.size(), of));
    return CheckIds(tokens, of);
  };
  LUNA_RETURN_IF_ERROR(CheckSampling(saved.default_sampling));
  LUNA_RETURN_IF_ERROR(check_tokens(saved.history, "history"));
  if (saved.system.has_value()) {
    LUNA_RETURN_IF_ERROR(check_tokens(saved.system->opening, "system.opening"));
  }
  LUNA_RETURN_IF_ERROR(CheckFitsContext(saved.turns.size(), "turns"));
  for (const TurnRecord& turn : saved.turns) {
    LUNA_RETURN_IF_ERROR(check_tokens(turn.after_system, "turns.after_system"));
  }
  return absl::OkStatus();
}

absl::Status Engine::Impl::CheckFitsContext(size_t size, const char* of) const {
  if (static_cast<int64_t>(size) <= context()) return absl::OkStatus();
  return WithField(
      absl::FailedPreconditionError(absl::StrCat("the saved session's ", of, " has ", size,
                                                 " entries; the context is ", context())),
      of);
}

absl::StatusOr<SessionInfo> Engine::Impl::RestoreSession(const SavedSession& saved,
                                                         const RestoreSpec& spec) {
  if (draining_) return absl::UnavailableError("the server is draining; it takes nothing new");
  LUNA_RETURN_IF_ERROR(CheckSaved(saved));
  const int64_t block_bytes = options_.layout.block_bytes();
  const int64_t most_quota = spec.trusted ? blocks_.total_blocks() : default_quota_blocks_;
  const int64_t quota = std::clamp<int64_t>(saved.quota_bytes / block_bytes, 1, most_quota);
  const int64_t guarantee = std::min(
      quota, spec.trusted ? saved.guarantee_bytes / block_bytes : default_guarantee_blocks_);
  LUNA_RETURN_IF_ERROR(CheckGuarantee(guarantee, quota, 0));
  // At a start, those that come first were active last.
  LUNA_RETURN_IF_ERROR(spec.resumed ? CheckRoomForSession() : MakeRoomForSession());

  const std::string& caller = spec.caller.empty() ? saved.caller : spec.caller;
  Session* session = sessions_.Create({.key = saved.key,
                                       .caller = caller,
                                       .scope = ScopeOf(caller),
                                       .quota_blocks = quota,
                                       .now = now_});
  static_cast<Conversation&>(*session) = saved;
  session->other_numerics = saved.numerics != backend_->info().numerics;
  session->seeds = saved.seeds;
  session->generated_tokens = saved.generated_tokens;
  session->created = saved.created;
  if (spec.resumed) session->last_active = std::min(saved.last_active, now_);
  SetGuarantee(*session, guarantee);
  scheduler_.AddCache(&session->cache);
  if (!spec.resumed) NoteChanged(*session);
  return InfoOf(*session);
}

}  // namespace luna::engine
