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
#include "core/kv/prefix_index.h"

namespace luna::engine {

// Engine thread only. Borrows layout and pool.
class SessionTable {
 public:
  // `index` may be null: nothing is shared.
  SessionTable(const kv::KvLayout* layout, kv::BlockPool* blocks, kv::PrefixIndex* index)
      : layout_(layout), blocks_(blocks), index_(index) {}

  struct Spec {
    std::string key = {};  // empty: a new one
    std::string caller;
    std::string scope;  // whom it shares prefixes with; empty: nobody but its forks
    bool ephemeral = false;
    int64_t quota_blocks = 0;
    absl::Time now;
  };
  // The pointer is valid until it is erased. No session has the key.
  Session* Create(Spec spec);
  void Erase(Session* session);
  // Null if there is none, or only an ephemeral one: nobody has its key.
  Session* Find(const std::string& key) const;

  // Ephemeral ones are not counted.
  size_t num_sessions() const { return by_key_.size(); }
  const std::map<SessionId, std::unique_ptr<Session>>& all() const { return sessions_; }

 private:
  const kv::KvLayout* const layout_;
  kv::BlockPool* const blocks_;
  kv::PrefixIndex* const index_;
  std::map<SessionId, std::unique_ptr<Session>> sessions_;
  absl::flat_hash_map<std::string, Session*> by_key_;
  uint64_t last_id_ = 0;
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_SESSION_TABLE_H_
