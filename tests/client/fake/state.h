// What the services of the fake server share.
#ifndef LUNA_TESTS_CLIENT_FAKE_STATE_H_
#define LUNA_TESTS_CLIENT_FAKE_STATE_H_

#include <grpcpp/support/status.h>

#include <algorithm>
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
inline constexpr uint64_t kBlockBytes = kBlockTokens * kBytesPerToken;
inline constexpr uint64_t kPoolBlocks = 1000;

// Beside what a client sees of a session.
struct Held {
  std::vector<uint32_t> turn_tokens;  // of history after turn 1, 2, ...
  std::vector<int> blocks;            // of cache, the first tokens' first; a fork has them too
  uint64_t evictions = 0;
};

// The mutex guards all the rest.
struct State {
  mutable std::mutex mutex;
  std::condition_variable changed;
  Behaviour behaviour;
  Seen seen;
  std::map<std::string, v1::Session> sessions;
  std::map<std::string, Held> held;  // of each of them
  std::map<std::string, std::string> saved;
  std::set<std::string> aborted;
  int next_id = 1;
  int next_block = 1;
  bool save_hangs = false;  // a SaveSession that goes on is under way
  bool down = false;

  // Puts a session in, with the cache that it shares with others and the rest of its own.
  void Add(const v1::Session& session, Held what) {
    sessions[session.id()] = session;
    held[session.id()] = std::move(what);
  }

  // A turn is over: history has `tokens` now, all of them in the cache.
  uint32_t Commit(v1::Session& session, uint32_t tokens) {
    Held& what = held[session.id()];
    session.set_tokens(tokens);
    session.set_turn(session.turn() + 1);
    what.turn_tokens.push_back(tokens);
    while (what.blocks.size() * kBlockTokens < tokens) what.blocks.push_back(next_block++);
    return session.turn();
  }

  // Drops the last tokens' blocks until at most `bytes` are left; how many bytes were given up.
  uint64_t EvictTo(const v1::Session& session, uint64_t bytes) {
    Held& what = held[session.id()];
    const size_t before = what.blocks.size();
    what.blocks.resize(std::min<size_t>(before, bytes / kBlockBytes));
    if (what.blocks.size() < before) ++what.evictions;
    return (before - what.blocks.size()) * kBlockBytes;
  }

  // How many sessions hold each block.
  std::map<int, uint64_t> Holders() const {
    std::map<int, uint64_t> holders;
    for (const auto& [id, what] : held) {
      for (const int block : what.blocks) ++holders[block];
    }
    return holders;
  }

  // By id, or by the handle "h-" + id.
  v1::Session* Find(const std::string& id_or_handle) {
    const bool handle = id_or_handle.rfind("h-", 0) == 0;
    const auto found = sessions.find(handle ? id_or_handle.substr(2) : id_or_handle);
    return found == sessions.end() ? nullptr : &found->second;
  }

  v1::SessionMemory MemoryOf(const v1::Session& session) const {
    v1::SessionMemory memory;
    const Held& what = held.at(session.id());
    const std::map<int, uint64_t> holders = Holders();
    uint64_t split = 0;
    uint32_t shared = 0;
    for (const int block : what.blocks) {
      if (holders.at(block) > 1) ++shared;
      split += kBlockBytes / holders.at(block);
    }
    const uint32_t blocks = static_cast<uint32_t>(what.blocks.size());
    memory.set_session_id(session.id());
    memory.set_label(session.label());
    memory.set_own(true);
    memory.set_state(v1::SESSION_STATE_IDLE);
    memory.set_turn(session.turn());
    memory.set_tokens(session.tokens());
    memory.set_private_blocks(blocks - shared);
    memory.set_shared_blocks(shared);
    memory.set_used_bytes(std::min(session.tokens(), blocks * kBlockTokens) * kBytesPerToken);
    memory.set_charged_bytes(blocks * kBlockBytes);
    memory.set_peak_bytes(memory.charged_bytes());
    memory.set_guaranteed_bytes(session.guarantee_bytes());
    memory.set_quota_bytes(session.quota_bytes());
    memory.set_evictions(what.evictions);
    memory.set_split_bytes(split);
    return memory;
  }

  v1::PoolMemory Pool() const {
    v1::PoolMemory pool;
    uint64_t charged = 0;
    uint64_t shared = 0;
    for (const auto& [block, holders] : Holders()) {
      ++charged;
      if (holders > 1) ++shared;
    }
    pool.set_block_tokens(kBlockTokens);
    pool.set_block_bytes(kBlockBytes);
    pool.set_bytes_per_token(kBytesPerToken);
    pool.set_total_blocks(kPoolBlocks);
    pool.set_charged_blocks(charged);
    pool.set_shared_blocks(shared);
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
