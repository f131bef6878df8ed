// What the services of the fake server share.
#ifndef LUNA_TESTS_CLIENT_FAKE_STATE_H_
#define LUNA_TESTS_CLIENT_FAKE_STATE_H_

#include <grpcpp/support/status.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "luna/v1/monitor.pb.h"
#include "luna/v1/session.pb.h"
#include "tests/client/fake/fake_server.h"

namespace luna::fake {

inline constexpr uint32_t kBlockTokens = 16;
inline constexpr uint64_t kBytesPerToken = 32;
inline constexpr uint64_t kPoolBlocks = 1000;

// The mutex guards all the rest.
struct State {
  mutable std::mutex mutex;
  std::condition_variable changed;
  Behaviour behaviour;
  Seen seen;
  std::map<std::string, v1::Session> sessions;
  std::set<std::string> aborted;
  int next_id = 1;
  bool down = false;

  v1::SessionMemory MemoryOf(const v1::Session& session) const {
    v1::SessionMemory memory;
    const uint32_t blocks = (session.tokens() + kBlockTokens - 1) / kBlockTokens;
    memory.set_session_id(session.id());
    memory.set_label(session.label());
    memory.set_own(true);
    memory.set_state(v1::SESSION_STATE_IDLE);
    memory.set_turn(session.turn());
    memory.set_tokens(session.tokens());
    memory.set_private_blocks(blocks);
    memory.set_used_bytes(session.tokens() * kBytesPerToken);
    memory.set_charged_bytes(blocks * kBlockTokens * kBytesPerToken);
    memory.set_peak_bytes(memory.charged_bytes());
    memory.set_quota_bytes(behaviour.context_length * kBytesPerToken);
    return memory;
  }

  v1::PoolMemory Pool() const {
    v1::PoolMemory pool;
    uint64_t charged = 0;
    for (const auto& [id, session] : sessions) charged += MemoryOf(session).private_blocks();
    pool.set_block_tokens(kBlockTokens);
    pool.set_block_bytes(kBlockTokens * kBytesPerToken);
    pool.set_bytes_per_token(kBytesPerToken);
    pool.set_total_blocks(kPoolBlocks);
    pool.set_charged_blocks(charged);
    pool.set_free_blocks(kPoolBlocks - charged);
    return pool;
  }

  v1::Load LoadNow() const {
    v1::Load load;
    load.set_sessions(static_cast<uint32_t>(sessions.size()));
    load.set_max_sessions(64);
    return load;
  }

  static bool PopRefusal(std::vector<grpc::Status>& refusals, grpc::Status& refusal) {
    if (refusals.empty()) return false;
    refusal = refusals.front();
    refusals.erase(refusals.begin());
    return true;
  }
};

inline grpc::Status UnknownSession(const std::string& id) {
  return {grpc::StatusCode::NOT_FOUND, absl::StrCat("no session ", id)};
}

}  // namespace luna::fake

#endif  // LUNA_TESTS_CLIENT_FAKE_STATE_H_
