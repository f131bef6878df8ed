// What is held, what is going on, and does it add up?
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/engine/engine_impl.h"

namespace luna::engine {
namespace {

// Of the answer alone: the time to its first token is the prompt's.
double TokensPerSecond(const Session& session) {
  const double seconds = absl::ToDoubleSeconds(session.answer_last - session.answer_first);
  return session.answer_tokens < 2 || seconds <= 0 ? 0.0 : (session.answer_tokens - 1) / seconds;
}

}  // namespace

TokenLimits Engine::Impl::LimitsFor(const Session& session) const {
  return LimitsOf(options_.layout, context(), session.cache.pool.quota_blocks(),
                  blocks_.total_blocks());
}

SessionState Engine::Impl::StateOf(const Session& session) const {
  if (session.live == nullptr) return SessionState::kIdle;
  const sched::Sequence& sequence = *session.live->sequence;
  if (!sequence.schedule.running) return SessionState::kWaiting;
  return sequence.output_tokens() == 0 ? SessionState::kPrefill : SessionState::kDecode;
}

// `seen` [total blocks]: how many sessions before this one hold each block.
SessionMemory Engine::Impl::MemoryOf(const Session& session, std::vector<int32_t>& seen) const {
  const int64_t block_bytes = options_.layout.block_bytes();
  const sched::SessionCache& cache = session.cache;
  SessionMemory memory;
  memory.id = session.id;
  memory.key = session.key;
  memory.caller = session.caller;
  memory.label = session.label;
  memory.ephemeral = session.ephemeral;
  memory.turn = session.turn();
  memory.tokens = session.live == nullptr
                      ? static_cast<uint32_t>(session.history.size())
                      : static_cast<uint32_t>(session.live->sequence->num_tokens());
  memory.used_bytes = cache.kv.used_bytes();
  cache.kv.ForEachBlock([&](BlockId block) {
    const int64_t holders = blocks_.holders(block);
    ++(holders == 1 ? memory.private_blocks : memory.shared_blocks);
    const int64_t before = seen[block.value()]++;
    memory.split_bytes += block_bytes / holders + (before < block_bytes % holders ? 1 : 0);
  });
  memory.charged_bytes = cache.pool.held_blocks() * block_bytes;
  memory.slack_bytes = memory.charged_bytes - memory.used_bytes;
  memory.peak_bytes = cache.pool.peak_blocks() * block_bytes;
  memory.guaranteed_bytes = cache.pool.guaranteed_blocks() * block_bytes;
  memory.quota_bytes = cache.pool.quota_blocks() * block_bytes;
  memory.evictions = cache.evictions;
  memory.recomputed_tokens = cache.recomputed_tokens;
  memory.generated_tokens = session.generated_tokens;
  memory.tokens_per_s = TokensPerSecond(session);
  memory.state = StateOf(session);
  memory.last_active = session.last_active;
  return memory;
}

Load Engine::Impl::CurrentLoad() const {
  Load load;
  load.running = static_cast<uint32_t>(scheduler_.running().size());
  load.waiting = static_cast<uint32_t>(scheduler_.waiting().size());
  load.sessions = static_cast<uint32_t>(sessions_.num_sessions());
  load.max_sessions = static_cast<uint32_t>(options_.max_sessions);
  load.queue_limit = static_cast<uint32_t>(options_.queue_limit);
  load.tokens_per_s = token_rate_.PerSecond(now_);
  load.prefill_tokens_per_s = prompt_rate_.PerSecond(now_);
  load.step_ms = step_ms_;
  load.total_tokens = total_tokens_;
  load.total_prompt_tokens = total_prompt_tokens_;
  load.preemptions = scheduler_.preemptions();
  load.finished = finished_;
  load.draining = draining_;
  load.uptime_s = absl::ToDoubleSeconds(now_ - started_);
  return load;
}

Snapshot Engine::Impl::TakeSnapshot() const {
  Snapshot snapshot;
  snapshot.tick = tick_;
  PoolMemory& pool = snapshot.pool;
  pool.block_bytes = options_.layout.block_bytes();
  pool.block_tokens = options_.layout.block_tokens;
  pool.total_blocks = blocks_.total_blocks();
  pool.free_blocks = blocks_.free_blocks();
  pool.cached_blocks = blocks_.cached_blocks();
  pool.charged_blocks = blocks_.charged_blocks();
  pool.peak_charged_blocks = blocks_.peak_charged_blocks();
  pool.bytes_per_token = options_.layout.token_bytes();
  pool.weights_bytes = backend_->info().weights_bytes;
  pool.reserved_blocks = blocks_.reserved_blocks();
  if (const auto device = backend_->device_memory(); device.has_value()) {
    pool.device_free_bytes = device->free_bytes;
    pool.device_total_bytes = device->total_bytes;
  }
  std::vector<int32_t> seen(blocks_.total_blocks(), 0);
  for (const auto& [id, session] : sessions_.all()) {
    snapshot.sessions.push_back(MemoryOf(*session, seen));
  }
  pool.shared_blocks = std::ranges::count_if(seen, [](int32_t holders) { return holders > 1; });
  snapshot.load = CurrentLoad();
  return snapshot;
}

std::vector<std::string> Engine::Impl::CheckInvariants() const {
  std::vector<std::string> differences;
  std::vector<kv::BlockPool::Found> found(blocks_.total_blocks());
  int64_t reserved = 0, unused = 0;
  for (const auto& [id, session] : sessions_.all()) {
    const sched::SessionCache& cache = session->cache;
    const auto differ = [&, number = id.value()](const char* what, int64_t counted, int64_t found) {
      if (counted == found) return;
      differences.push_back(absl::StrCat("session ", number, " counts ", counted, " ", what, "; ",
                                         found, " were found"));
    };
    differ("blocks", cache.pool.held_blocks(), cache.kv.Recount(found));
    differ("blocks in its tables", cache.kv.held_blocks(), cache.pool.held_blocks());
    reserved += cache.pool.guaranteed_blocks();
    unused += cache.pool.unused_guarantee();
    const int64_t tokens = session->live == nullptr ? static_cast<int64_t>(session->history.size())
                                                    : session->live->sequence->num_tokens();
    if (cache.kv.computed_tokens() > tokens) {
      differences.push_back(absl::StrCat("session ", id.value(), " has ",
                                         cache.kv.computed_tokens(), " computed tokens of ",
                                         tokens));
    }
  }
  prefixes_.CheckInvariants(found, differences);
  blocks_.CheckInvariants(found, differences);
  if (reserved != blocks_.reserved_blocks() || unused != blocks_.unused_guarantees()) {
    differences.push_back(absl::StrCat(blocks_.reserved_blocks(), " blocks count as guaranteed, ",
                                       blocks_.unused_guarantees(), " of them as unused; ",
                                       reserved, " and ", unused, " were found"));
  }
  const size_t scheduled = scheduler_.running().size() + scheduler_.waiting().size();
  if (scheduled != live_.size()) {
    differences.push_back(
        absl::StrCat(live_.size(), " generations live; ", scheduled, " run or wait"));
  }
  return differences;
}

}  // namespace luna::engine
