// What callers do to sessions between turns.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "core/engine/engine_impl.h"

namespace luna::engine {
namespace {

constexpr absl::Duration kSessionRetryAfter = absl::Seconds(5);

}  // namespace

absl::Status Engine::Impl::CheckNotLive(const Session& session, const char* what) {
  if (session.live == nullptr) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("the session has a live generation; ", what, " waits for its end"));
}

absl::Status Engine::Impl::CheckTurn(const Session& session, uint32_t turn, const char* field) {
  if (turn > session.turn()) {
    return InvalidField(field,
                        absl::StrCat(turn, " is above the session's turn, ", session.turn()));
  }
  if (turn == 0 || turn >= session.dropped_turns) return absl::OkStatus();
  return WithField(absl::FailedPreconditionError(absl::StrCat(field, " is ", turn, "; the oldest ",
                                                              session.dropped_turns,
                                                              " turns have left the context")),
                   field);
}

absl::StatusOr<Session*> Engine::Impl::FindSession(const std::string& key) const {
  Session* session = sessions_.Find(key);
  if (session != nullptr) return session;
  return WithField(absl::NotFoundError("no session has this id"), "session_id");
}

absl::Status Engine::Impl::CheckSampling(const sample::SamplingOverrides& sampling) const {
  return sample::Validate(sample::Resolve(sampling), backend_->info().vocab_size);
}

absl::StatusOr<int64_t> Engine::Impl::QuotaBlocks(int64_t quota_bytes) const {
  const int64_t block_bytes = options_.layout.block_bytes();
  const int64_t most = default_quota_blocks_ * block_bytes;
  if (quota_bytes >= 0 && quota_bytes <= most) return quota_bytes / block_bytes;
  return InvalidField("quota_bytes",
                      absl::StrCat(quota_bytes, " is above the server's quota of ", most));
}

absl::StatusOr<SessionInfo> Engine::Impl::CreateSession(SessionSpec spec) {
  if (draining_) return absl::UnavailableError("the server is draining; it takes nothing new");
  LUNA_RETURN_IF_ERROR(CheckSampling(spec.default_sampling));
  int64_t quota_blocks = default_quota_blocks_;
  if (spec.quota_bytes.has_value()) {
    LUNA_ASSIGN_OR_RETURN(quota_blocks, QuotaBlocks(*spec.quota_bytes));
  }
  const int64_t guarantee = std::min(default_guarantee_blocks_, quota_blocks);
  LUNA_RETURN_IF_ERROR(CheckGuarantee(guarantee, quota_blocks, 0));
  LUNA_RETURN_IF_ERROR(MakeRoomForSession());
  const std::string scope = ScopeOf(spec.caller);
  Session* session = sessions_.Create({.caller = std::move(spec.caller),
                                       .scope = scope,
                                       .quota_blocks = quota_blocks,
                                       .now = now_});
  session->label = std::move(spec.label);
  session->default_sampling = std::move(spec.default_sampling);
  session->system = std::move(spec.system);
  session->context_policy = spec.context_policy;
  session->seeds.base = NextSeed();
  SetGuarantee(*session, guarantee);
  scheduler_.AddCache(&session->cache);
  NoteChanged(*session);
  return InfoOf(*session);
}

std::string Engine::Impl::ScopeOf(const std::string& caller) const {
  switch (options_.prefix_sharing) {
    case PrefixSharing::kServer:
      return "server";
    case PrefixSharing::kPeer:
      return absl::StrCat("peer ", caller);
    case PrefixSharing::kSession:
      break;
  }
  return "";
}

void Engine::Impl::NoteChanged(const Session& session) const {
  if (!session.ephemeral && options_.on_changed) options_.on_changed(Export(session));
}

absl::Status Engine::Impl::MakeRoomForSession(const Session* but_not) {
  absl::Status room = CheckRoomForSession();
  return room.ok() || CloseForgotten(but_not) ? absl::OkStatus() : room;
}

absl::Status Engine::Impl::CheckRoomForSession() const {
  if (sessions_.num_sessions() < static_cast<size_t>(options_.max_sessions)) {
    return absl::OkStatus();
  }
  return WithRetryAfter(
      absl::ResourceExhaustedError(absl::StrCat("the server holds ", sessions_.num_sessions(),
                                                " sessions; the limit is ", options_.max_sessions)),
      kSessionRetryAfter);
}

// A client that was killed left its session behind; nobody else knows the key.
bool Engine::Impl::CloseForgotten(const Session* but_not) {
  Session* oldest = nullptr;
  for (const auto& [id, session] : sessions_.all()) {
    if (session->ephemeral || session->live != nullptr || session.get() == but_not) continue;
    if (oldest == nullptr || session->last_active < oldest->last_active) oldest = session.get();
  }
  if (oldest == nullptr || now_ - oldest->last_active < options_.session_idle_timeout) return false;
  CloseSession(*oldest);
  return true;
}

absl::StatusOr<SessionInfo> Engine::Impl::GetSession(const std::string& key) {
  LUNA_ASSIGN_OR_RETURN(const Session* session, FindSession(key));
  return InfoOf(*session);
}

std::vector<SessionInfo> Engine::Impl::ListSessions(const std::string& caller) const {
  std::vector<SessionInfo> infos;
  for (const auto& [id, session] : sessions_.all()) {
    if (session->ephemeral || session->caller != caller) continue;
    // Set aside: copies for many calls at once would be hundreds of megabytes.
    auto bias = std::exchange(session->default_sampling.logit_bias, std::nullopt);
    infos.push_back(InfoOf(*session));
    session->default_sampling.logit_bias = std::move(bias);
  }
  return infos;
}

absl::StatusOr<SessionInfo> Engine::Impl::UpdateSession(const std::string& key,
                                                        SessionUpdate update) {
  LUNA_ASSIGN_OR_RETURN(Session * session, FindSession(key));
  // Everything is checked before anything changes.
  if (update.default_sampling.has_value()) {
    LUNA_RETURN_IF_ERROR(CheckSampling(*update.default_sampling));
  }
  int64_t quota_blocks = session->cache.pool.quota_blocks();
  if (update.quota_bytes.has_value()) {
    LUNA_ASSIGN_OR_RETURN(quota_blocks, QuotaBlocks(*update.quota_bytes));
    const int64_t guarantee = session->cache.pool.guaranteed_blocks();
    LUNA_RETURN_IF_ERROR(CheckGuarantee(guarantee, quota_blocks, guarantee));
  }
  if (update.system.has_value()) {
    LUNA_RETURN_IF_ERROR(CheckNotLive(*session, "a new system prompt"));
    if (!session->history.empty()) {
      return WithField(absl::FailedPreconditionError(
                           absl::StrCat("the system prompt opened a conversation of ",
                                        session->turn(), " turns; reset the session to change it")),
                       "system");
    }
    session->system = std::move(*update.system);
  }
  if (update.label.has_value()) session->label = std::move(*update.label);
  if (update.context_policy.has_value()) session->context_policy = *update.context_policy;
  if (update.default_sampling.has_value()) {
    session->default_sampling = std::move(*update.default_sampling);
  }
  SetQuota(*session, quota_blocks);
  NoteChanged(*session);
  return InfoOf(*session);
}

absl::StatusOr<SessionInfo> Engine::Impl::ResetSession(const std::string& key, uint32_t to_turn) {
  LUNA_ASSIGN_OR_RETURN(Session * session, FindSession(key));
  LUNA_RETURN_IF_ERROR(CheckNotLive(*session, "a reset"));
  LUNA_RETURN_IF_ERROR(CheckTurn(*session, to_turn, "to_turn"));
  TruncateTurns(*session, to_turn);
  session->last_active = now_;
  NoteChanged(*session);
  return InfoOf(*session);
}

absl::StatusOr<bool> Engine::Impl::CloseSession(const std::string& key) {
  LUNA_ASSIGN_OR_RETURN(Session * session, FindSession(key));
  if (session->live != nullptr) {
    End(*session->live, {.reason = FinishReason::kCancelled}, Turn::kDiscard);
  }
  CloseSession(*session);
  return true;
}

uint32_t Engine::Impl::Drain() {
  draining_ = true;
  return static_cast<uint32_t>(live_.size());
}

SessionInfo Engine::Impl::InfoOf(const Session& session) const {
  const int64_t block_bytes = options_.layout.block_bytes();
  const int64_t tokens = static_cast<int64_t>(session.history.size());
  SessionInfo info;
  info.id = session.id;
  info.key = session.key;
  info.caller = session.caller;
  info.label = session.label;
  info.turn = session.turn();
  info.tokens = static_cast<uint32_t>(tokens);
  info.context_left = static_cast<uint32_t>(std::max<int64_t>(0, context() - tokens));
  info.default_sampling = session.default_sampling;
  if (session.system.has_value()) info.system = session.system->text;
  info.guarantee_bytes = session.cache.pool.guaranteed_blocks() * block_bytes;
  info.quota_bytes = session.cache.pool.quota_blocks() * block_bytes;
  info.context_policy = session.context_policy;
  info.state = StateOf(session);
  if (!session.turns.empty()) info.last_text = session.turns.back().text;
  info.dropped_turns = session.dropped_turns;
  info.other_numerics = session.other_numerics;
  info.created = session.created;
  info.last_active = session.last_active;
  return info;
}

}  // namespace luna::engine
