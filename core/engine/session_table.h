// All sessions of the server, by the key that callers have and in the order of creation.
#ifndef LUNA_CORE_ENGINE_SESSION_TABLE_H_
#define LUNA_CORE_ENGINE_SESSION_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/base/ids.h"
#include "core/engine/session.h"
#include "core/kv/block_pool.h"
#include "core/kv/layout.h"

namespace luna::engine {

// Engine thread only. Borrows layout and pool.
class SessionTable {
 public:
  SessionTable(const kv::KvLayout* layout, kv::BlockPool* blocks)
      : layout_(layout), blocks_(blocks) {}

  // A new session with a new key. The pointer is valid until it is erased.
  Session* Create(bool ephemeral, int64_t quota_blocks, absl::Time now);
  void Erase(Session* session);
  // Null if there is none, or only an ephemeral one: nobody has its key.
  Session* Find(const std::string& key) const;

  // Ephemeral ones are not counted.
  size_t num_sessions() const { return by_key_.size(); }
  const std::map<SessionId, std::unique_ptr<Session>>& all() const { return sessions_; }

 private:
  const kv::KvLayout* const layout_;
  kv::BlockPool* const blocks_;
  std::map<SessionId, std::unique_ptr<Session>> sessions_;
  absl::flat_hash_map<std::string, Session*> by_key_;
  uint64_t last_id_ = 0;
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_SESSION_TABLE_H_
