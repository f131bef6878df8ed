// The fake server's sessions, their forks and snapshots.
#ifndef LUNA_TESTS_CLIENT_FAKE_SESSIONS_H_
#define LUNA_TESTS_CLIENT_FAKE_SESSIONS_H_

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "luna/v1/session.grpc.pb.h"
#include "tests/client/fake/snapshot.h"
#include "tests/client/fake/state.h"

namespace luna::fake {

class Sessions final : public v1::SessionService::Service {
 public:
  explicit Sessions(State& state) : state_(state) {}

  grpc::Status CreateSession(grpc::ServerContext*, const v1::CreateSessionRequest* request,
                             v1::Session* response) override {
    const std::lock_guard lock(state_.mutex);
    grpc::Status refusal;
    if (State::PopRefusal(state_.behaviour.session_refusals, refusal)) return refusal;
    ++state_.seen.sessions_created;
    response->set_id(absl::StrCat("session-", state_.next_id++));
    response->set_label(request->label());
    response->set_state(v1::SESSION_STATE_IDLE);
    response->set_context_left(state_.behaviour.context_length);
    response->set_system(request->system());
    response->set_quota_bytes(request->has_quota_bytes()
                                  ? request->quota_bytes()
                                  : state_.behaviour.context_length * kBytesPerToken);
    state_.Add(*response, Held());
    return grpc::Status::OK;
  }

  grpc::Status GetSession(grpc::ServerContext*, const v1::GetSessionRequest* request,
                          v1::Session* response) override {
    const std::lock_guard lock(state_.mutex);
    const auto found = state_.sessions.find(request->session_id());
    if (found == state_.sessions.end()) return UnknownSession(request->session_id());
    *response = found->second;
    return grpc::Status::OK;
  }

  grpc::Status ListSessions(grpc::ServerContext*, const v1::ListSessionsRequest*,
                            v1::ListSessionsResponse* response) override {
    const std::lock_guard lock(state_.mutex);
    for (const auto& [id, session] : state_.sessions) *response->add_sessions() = session;
    return grpc::Status::OK;
  }

  grpc::Status ResetSession(grpc::ServerContext*, const v1::ResetSessionRequest* request,
                            v1::Session* response) override {
    const std::lock_guard lock(state_.mutex);
    const auto found = state_.sessions.find(request->session_id());
    if (found == state_.sessions.end()) return UnknownSession(request->session_id());
    ++state_.seen.resets;
    found->second.set_tokens(0);
    found->second.set_turn(0);
    state_.held[found->first] = Held();
    *response = found->second;
    return grpc::Status::OK;
  }

  grpc::Status CloseSession(grpc::ServerContext*, const v1::CloseSessionRequest* request,
                            v1::CloseSessionResponse*) override {
    const std::lock_guard lock(state_.mutex);
    if (state_.sessions.erase(request->session_id()) == 0) {
      return UnknownSession(request->session_id());
    }
    state_.held.erase(request->session_id());
    ++state_.seen.sessions_closed;
    return grpc::Status::OK;
  }

  grpc::Status ForkSession(grpc::ServerContext*, const v1::ForkSessionRequest* request,
                           v1::Session* response) override {
    const std::lock_guard lock(state_.mutex);
    const auto found = state_.sessions.find(request->session_id());
    if (found == state_.sessions.end()) return UnknownSession(request->session_id());
    const v1::Session& parent = found->second;
    const uint32_t turn = request->has_at_turn() ? request->at_turn() : parent.turn();
    if (turn > parent.turn()) {
      return BadRequest("at_turn",
                        absl::StrCat(turn, " is above the session's turn, ", parent.turn()));
    }
    Held held = state_.held[parent.id()];
    held.evictions = 0;
    held.turn_tokens.resize(turn);
    const uint32_t tokens = turn == 0 ? 0 : held.turn_tokens.back();
    *response = parent;
    response->set_id(absl::StrCat("session-", state_.next_id++));
    if (!request->label().empty()) response->set_label(request->label());
    response->set_turn(turn);
    response->set_tokens(tokens);
    response->set_context_left(state_.behaviour.context_length - tokens);
    // Whole blocks are shared; the started one is copied.
    held.blocks.resize(std::min<size_t>(held.blocks.size(), tokens / kBlockTokens));
    if (tokens % kBlockTokens != 0) held.blocks.push_back(state_.next_block++);
    state_.Add(*response, std::move(held));
    return grpc::Status::OK;
  }

  grpc::Status SaveSession(grpc::ServerContext*, const v1::SaveSessionRequest* request,
                           grpc::ServerWriter<v1::SessionChunk>* writer) override {
    std::unique_lock lock(state_.mutex);
    const auto found = state_.sessions.find(request->session_id());
    if (found == state_.sessions.end()) return UnknownSession(request->session_id());
    const std::string snapshot = Snapshot(found->second, state_.held[found->first]);
    v1::SessionChunk chunk;
    if (!request->name().empty()) {
      state_.saved[request->name()] = snapshot;
      chunk.set_name(request->name());
      writer->Write(chunk);
      return grpc::Status::OK;
    }
    const int most = state_.behaviour.save_cut_after;
    const bool hangs = state_.behaviour.save_hangs;
    lock.unlock();
    int sent = 0;
    for (size_t at = 0; at < snapshot.size() && sent != most; at += kSnapshotChunkBytes, ++sent) {
      chunk.set_data(snapshot.substr(at, kSnapshotChunkBytes));
      writer->Write(chunk);
    }
    if (hangs) return GoOn(*writer);
    return sent == most && most > 0
               ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is going down")
               : grpc::Status::OK;
  }

  grpc::Status RestoreSession(grpc::ServerContext*, grpc::ServerReader<v1::SessionChunk>* reader,
                              v1::Session* response) override {
    std::string snapshot;
    v1::SessionChunk chunk;
    int chunks = 0;
    while (reader->Read(&chunk)) {
      ++chunks;
      snapshot += chunk.data();
      if (!chunk.name().empty() && !Saved(chunk.name(), snapshot)) {
        return {grpc::StatusCode::NOT_FOUND, absl::StrCat("no saved session ", chunk.name())};
      }
    }
    const std::lock_guard lock(state_.mutex);
    state_.seen.restore_chunks = chunks;
    auto read = ReadSnapshot(snapshot);
    if (!read) return {grpc::StatusCode::DATA_LOSS, "the saved session is damaged"};
    if (state_.sessions.count(read->first.id()) > 0) {
      return {grpc::StatusCode::ALREADY_EXISTS, absl::StrCat(read->first.id(), " lives")};
    }
    *response = read->first;
    response->set_other_numerics(state_.behaviour.other_numerics);
    state_.Add(*response, std::move(read->second));
    return grpc::Status::OK;
  }

 private:
  static constexpr size_t kSnapshotChunkBytes = 16;

  bool Saved(const std::string& name, std::string& snapshot) {
    const std::lock_guard lock(state_.mutex);
    const auto found = state_.saved.find(name);
    if (found == state_.saved.end()) return false;
    snapshot = found->second;
    return true;
  }

  // Chunks without data until the caller has gone.
  grpc::Status GoOn(grpc::ServerWriter<v1::SessionChunk>& writer) {
    {
      const std::lock_guard lock(state_.mutex);
      state_.save_hangs = true;
      state_.changed.notify_all();
    }
    while (writer.Write(v1::SessionChunk())) {
    }
    return grpc::Status::CANCELLED;
  }

  State& state_;
};

}  // namespace luna::fake

#endif  // LUNA_TESTS_CLIENT_FAKE_SESSIONS_H_
