#include "server/rpc/load_log.h"

#include <grpc/support/time.h>
#include <spdlog/spdlog.h>

#include <utility>

namespace luna::rpc {

void LoadLog::Start() {
  if (stopped_) return;
  ticket_.emplace(&host_->calls());
  WaitForNext();
}

void LoadLog::Stop() {
  stopped_ = true;
  if (alarmed_.pending()) alarm_.Cancel();
}

void LoadLog::WaitForNext() {
  if (stopped_) return ticket_.reset();
  const gpr_timespec due =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_micros(absl::ToInt64Microseconds(kLoadLogInterval), GPR_TIMESPAN));
  alarm_.Set(host_->loop().queue(), due, alarmed_.Start(shared_from_this()));
}

void LoadLog::OnAlarm(bool) {
  if (stopped_) return ticket_.reset();
  host_->serving()->engine->TakeSnapshot(
      [self = shared_from_this()](absl::StatusOr<engine::Snapshot> snapshot) {
        self->snapshot_ = std::move(snapshot);
        self->host_->loop().Post(self);
      });
}

void LoadLog::OnReady() {
  if (snapshot_.ok() && !stopped_) {
    const engine::Load& load = snapshot_->load;
    const engine::PoolMemory& pool = snapshot_->pool;
    const bool busy = load.running + load.waiting > 0 || load.total_tokens != last_total_tokens_;
    last_total_tokens_ = load.total_tokens;
    if (busy) {
      spdlog::info(
          "load running={} waiting={} sessions={} tokens_per_s={:.1f} step_ms={:.2f} "
          "pool charged={} cached={} free={} of {} blocks",
          load.running, load.waiting, load.sessions, load.tokens_per_s, load.step_ms,
          pool.charged_blocks, pool.cached_blocks, pool.free_blocks, pool.total_blocks);
    }
  }
  WaitForNext();
}

}  // namespace luna::rpc
