#include "core/engine/session_table.h"

#include <utility>

#include "core/engine/random_key.h"

namespace luna::engine {

Session* SessionTable::Create(bool ephemeral, int64_t quota_blocks, absl::Time now) {
  const SessionId id(++last_id_);
  auto session = std::make_unique<Session>(id, layout_, blocks_, quota_blocks);
  session->key = RandomKey();
  session->ephemeral = ephemeral;
  session->created = session->last_active = now;
  Session* const borrowed = session.get();
  if (!ephemeral) by_key_.emplace(borrowed->key, borrowed);
  sessions_.emplace(id, std::move(session));
  return borrowed;
}

void SessionTable::Erase(Session* session) {
  by_key_.erase(session->key);
  sessions_.erase(session->id);
}

Session* SessionTable::Find(const std::string& key) const {
  const auto it = by_key_.find(key);
  return it == by_key_.end() ? nullptr : it->second;
}

}  // namespace luna::engine
