// The ledger and the load at the end of one tick, as one consistent picture. No text in it.
#ifndef LUNA_CORE_ENGINE_SNAPSHOT_H_
#define LUNA_CORE_ENGINE_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/engine/session_info.h"

namespace luna::engine {

// free + cached + charged == total, at every tick.
struct PoolMemory {
  int64_t block_bytes = 0;
  int block_tokens = 0;
  int64_t total_blocks = 0, free_blocks = 0, cached_blocks = 0, charged_blocks = 0;
  int64_t reserved_blocks = 0;  // sum of the guarantees
  int64_t peak_charged_blocks = 0;
  int64_t shared_blocks = 0;  // charged, and held by more than one session
  int64_t bytes_per_token = 0;
  int64_t weights_bytes = 0;
  // Of a device with memory of its own, as its driver says; 0 without one.
  int64_t device_free_bytes = 0, device_total_bytes = 0;
};

struct SessionMemory {
  SessionId id;
  std::string key;
  std::string caller;
  std::string label;
  bool ephemeral = false;
  uint32_t turn = 0;
  uint32_t tokens = 0;     // of history and of the turn in progress
  int64_t used_bytes = 0;  // computed tokens x bytes a token (windowed layers: those still held)
  int64_t private_blocks = 0, shared_blocks = 0;
  // Of the charged bytes, with each shared block divided equally among its holders, the remainder
  // to the sessions that are older: over all sessions the sum is what the pool has charged.
  int64_t split_bytes = 0;
  int64_t charged_bytes = 0;
  int64_t slack_bytes = 0;  // charged - used
  int64_t peak_bytes = 0;
  int64_t guaranteed_bytes = 0, quota_bytes = 0;
  uint64_t evictions = 0;  // times blocks were taken from it, idle or running
  uint64_t recomputed_tokens = 0;
  uint64_t generated_tokens = 0;  // since creation
  double tokens_per_s = 0;        // of the current or last answer
  SessionState state = SessionState::kIdle;
  absl::Time last_active;
};

struct Load {
  uint32_t running = 0, waiting = 0, sessions = 0, max_sessions = 0, queue_limit = 0;
  double tokens_per_s = 0, prefill_tokens_per_s = 0;  // over the last few seconds
  double step_ms = 0;                                 // of the last steps, on average
  uint64_t total_tokens = 0, total_prompt_tokens = 0, preemptions = 0, finished = 0;
  bool draining = false;
  double uptime_s = 0;
};

struct Snapshot {
  uint64_t tick = 0;
  PoolMemory pool;
  std::vector<SessionMemory> sessions;  // in the order of creation
  Load load;
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_SNAPSHOT_H_
