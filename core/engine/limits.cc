// What a session may hold, and what is kept for it: set while it lives.
#include <algorithm>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "core/engine/engine_impl.h"

namespace luna::engine {
namespace {

constexpr absl::Duration kGuaranteeRetryAfter = absl::Seconds(5);

}  // namespace

absl::StatusOr<Session*> Engine::Impl::FindSession(const SessionRef& ref) const {
  if (const std::string* key = std::get_if<std::string>(&ref)) return FindSession(*key);
  const auto it = sessions_.all().find(std::get<SessionId>(ref));
  if (it != sessions_.all().end()) return it->second.get();
  return WithField(absl::NotFoundError("no session has this handle"), "session_id");
}

// All guarantees together leave room for one full context, so that whoever has none gets on too.
// `instead_of`: blocks that are guaranteed now and would not be.
absl::Status Engine::Impl::CheckGuarantee(int64_t blocks, int64_t quota_blocks,
                                          int64_t instead_of) const {
  const int64_t block_bytes = options_.layout.block_bytes();
  if (blocks > quota_blocks) {
    return InvalidField("guarantee_bytes",
                        absl::StrCat(blocks * block_bytes, " is above the session's quota of ",
                                     quota_blocks * block_bytes));
  }
  const int64_t most =
      std::max<int64_t>(0, blocks_.total_blocks() - options_.layout.BlocksForTokens(
                                                        context(), options_.max_batch_tokens));
  const int64_t others = blocks_.reserved_blocks() - instead_of;
  if (blocks == 0 || others + blocks <= most) return absl::OkStatus();
  return WithRetryAfter(
      WithField(absl::ResourceExhaustedError(absl::StrCat(
                    "a guarantee of ", blocks * block_bytes,
                    " bytes cannot be given: ", others * block_bytes, " of the ",
                    most * block_bytes, " bytes that the pool can guarantee are given to others")),
                "guarantee_bytes"),
      kGuaranteeRetryAfter);
}

void Engine::Impl::SetGuarantee(Session& session, int64_t blocks) {
  session.cache.pool.set_guaranteed_blocks(blocks);
  session.cache.kv.UpdateProtection();
}

// A turn in progress is shortened to what the new quota allows, and ends now if it is there
// already. A higher quota is for the next turn. Cache that does not fit is dropped, history is
// kept.
void Engine::Impl::SetQuota(Session& session, int64_t quota_blocks) {
  kv::SessionPool& pool = session.cache.pool;
  const bool is_lower = quota_blocks < pool.quota_blocks();
  pool.set_quota_blocks(quota_blocks);
  if (!is_lower) return;
  if (Generation* generation = session.live; generation != nullptr) {
    sched::Sequence& sequence = *generation->sequence;
    const int64_t left = LimitsFor(session).quota - sequence.prompt_tokens();
    if (left <= sequence.output_tokens()) {
      const bool one_off = session.ephemeral;
      End(*generation, {.reason = FinishReason::kLength, .limit = Limit::kQuota}, Turn::kCommit);
      if (one_off) return;  // with its session
    } else if (left < sequence.stopping().max_tokens) {
      sequence.LimitTokens(left);
      generation->limit = Limit::kQuota;
    }
  }
  if (session.live == nullptr && pool.held_blocks() > quota_blocks) {
    session.cache.kv.GiveBackTail(pool.held_blocks() - quota_blocks);
    ++session.cache.evictions;
  }
}

absl::StatusOr<SessionLimits> Engine::Impl::SetLimits(const SessionRef& ref,
                                                      const LimitsUpdate& update) {
  LUNA_ASSIGN_OR_RETURN(Session * session, FindSession(ref));
  const int64_t block_bytes = options_.layout.block_bytes();
  kv::SessionPool& pool = session->cache.pool;
  int64_t quota = pool.quota_blocks(), guarantee = pool.guaranteed_blocks();
  if (update.quota_bytes.has_value()) {
    quota = *update.quota_bytes / block_bytes;
    if (quota < 1 || quota > blocks_.total_blocks()) {
      return InvalidField(
          "quota_bytes",
          absl::StrCat(*update.quota_bytes, " is not from one block of ", block_bytes,
                       " to the pool's ", blocks_.total_blocks() * block_bytes));
    }
  }
  if (update.guarantee_bytes.has_value()) guarantee = *update.guarantee_bytes / block_bytes;
  if (guarantee < 0) return InvalidField("guarantee_bytes", "is negative");
  LUNA_RETURN_IF_ERROR(CheckGuarantee(guarantee, quota, pool.guaranteed_blocks()));
  const SessionLimits limits = {.quota_bytes = quota * block_bytes,
                                .guarantee_bytes = guarantee * block_bytes};
  SetGuarantee(*session, guarantee);
  const bool ephemeral = session->ephemeral;
  SetQuota(*session, quota);  // may end the turn, and with it a one-off's session
  if (!ephemeral) NoteChanged(*session);
  return limits;
}

absl::StatusOr<Eviction> Engine::Impl::EvictSession(const SessionRef& ref, bool force) {
  LUNA_ASSIGN_OR_RETURN(Session * session, FindSession(ref));
  if (session->live != nullptr) {
    return absl::AbortedError("the session has a live generation, which needs its cache");
  }
  sched::SessionCache& cache = session->cache;
  const int64_t before = cache.pool.held_blocks();
  if (force) cache.kv.Truncate(0);
  while (cache.kv.CanGiveBackLast(/*alone=*/false)) cache.kv.GiveBackLast();
  const int64_t after = cache.pool.held_blocks(), block_bytes = options_.layout.block_bytes();
  if (after < before) ++cache.evictions;
  return Eviction{.evicted_bytes = (before - after) * block_bytes,
                  .charged_bytes = after * block_bytes};
}

}  // namespace luna::engine
