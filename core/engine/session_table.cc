#include "core/engine/session_table.h"

#include <utility>

#include "core/engine/random_key.h"

namespace luna::engine {

Session* SessionTable::Create(Spec spec) {
  const SessionId id(++last_id_);
  if (spec.key.empty()) spec.key = RandomKey();
  const std::string& scope = spec.scope.empty() ? spec.key : spec.scope;
  auto session = std::make_unique<Session>(id, layout_, blocks_, spec.quota_blocks, index_, scope);
  session->key = std::move(spec.key);
  session->caller = std::move(spec.caller);
  session->ephemeral = spec.ephemeral;
  session->created = session->last_active = spec.now;
  Session* const borrowed = session.get();
  if (!session->ephemeral) by_key_.emplace(borrowed->key, borrowed);
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
