#include "tests/client/fake/fake_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "luna/rpc/error_details.pb.h"
#include "luna/v1/admin.grpc.pb.h"
#include "luna/v1/inference.grpc.pb.h"
#include "luna/v1/monitor.grpc.pb.h"
#include "luna/v1/session.grpc.pb.h"

namespace luna::fake {
namespace {

constexpr uint32_t kBlockTokens = 16;
constexpr uint64_t kBytesPerToken = 32;
constexpr uint64_t kPoolBlocks = 1000;

template <typename Detail>
grpc::Status WithDetail(grpc::StatusCode code, const std::string& message, const Detail& detail) {
  google::rpc::Status status;
  status.set_code(code);
  status.set_message(message);
  status.add_details()->PackFrom(detail);
  return grpc::Status(code, message, status.SerializeAsString());
}

grpc::Status UnknownSession(const std::string& id) {
  return {grpc::StatusCode::NOT_FOUND, absl::StrCat("no session ", id)};
}

uint32_t PromptTokens(const v1::GenerateRequest& request) {
  if (request.has_token_ids()) return static_cast<uint32_t>(request.token_ids().ids_size());
  return static_cast<uint32_t>((request.text().size() + 3) / 4);
}

}  // namespace

grpc::Status BadRequest(const std::string& field, const std::string& description) {
  google::rpc::BadRequest detail;
  auto* const violation = detail.add_field_violations();
  violation->set_field(field);
  violation->set_description(description);
  return WithDetail(grpc::StatusCode::INVALID_ARGUMENT, "the request is not valid", detail);
}

grpc::Status RetryLater(const std::string& message, absl::Duration delay) {
  google::rpc::RetryInfo detail;
  detail.mutable_retry_delay()->set_seconds(absl::ToInt64Seconds(delay));
  detail.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(delay % absl::Seconds(1))));
  return WithDetail(grpc::StatusCode::RESOURCE_EXHAUSTED, message, detail);
}

struct FakeServer::State {
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

class FakeServer::Inference final : public v1::InferenceService::Service {
 public:
  explicit Inference(State& state) : state_(state) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateEvent>* writer) override {
    Answer answer;
    if (const grpc::Status status = Accept(*request, answer); !status.ok()) return status;
    bool live = writer->Write(Accepted(answer));
    uint32_t done = 0;
    while (live && (state_.behaviour.endless || done < answer.tokens) && !Aborted(answer)) {
      const uint32_t count =
          state_.behaviour.endless
              ? 1
              : std::min(state_.behaviour.tokens_per_message, answer.tokens - done);
      live = writer->Write(Delta(answer, done, count));
      done += count;
    }
    if (!live || context->IsCancelled()) {
      const std::lock_guard lock(state_.mutex);
      ++state_.seen.cancelled_streams;
      return grpc::Status::CANCELLED;
    }
    writer->Write(Finish(answer, done));
    return grpc::Status::OK;
  }

  grpc::Status Abort(grpc::ServerContext*, const v1::AbortRequest* request,
                     v1::AbortResponse* response) override {
    const std::lock_guard lock(state_.mutex);
    state_.seen.aborts.push_back(*request);
    state_.aborted.insert(request->generation_id());
    response->set_was_live(true);
    return grpc::Status::OK;
  }

  grpc::Status Tokenize(grpc::ServerContext*, const v1::TokenizeRequest* request,
                        v1::TokenizeResponse* response) override {
    for (size_t i = 0; i < (request->text().size() + 3) / 4; ++i) response->add_ids(7);
    return grpc::Status::OK;
  }

  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*,
                        v1::GetModelResponse* response) override {
    response->set_name("fake-model");
    response->set_backend("none");
    response->set_context_length(state_.behaviour.context_length);
    response->set_vocab_size(1000);
    response->set_has_chat_template(state_.behaviour.chat);
    response->add_end_ids(500);
    return grpc::Status::OK;
  }

 private:
  struct Answer {
    std::string generation_id;
    std::string session_id;
    uint64_t seed = 0;
    uint32_t prompt_tokens = 0;
    uint32_t tokens = 0;
    v1::Limit limit = v1::LIMIT_UNSPECIFIED;
    bool logprobs = false;
    uint64_t seq = 0;
  };

  grpc::Status Accept(const v1::GenerateRequest& request, Answer& answer) {
    const std::lock_guard lock(state_.mutex);
    state_.seen.generates.push_back(request);
    grpc::Status refusal;
    if (State::PopRefusal(state_.behaviour.refusals, refusal)) return refusal;
    uint32_t history = 0;
    if (!request.session_id().empty()) {
      const auto found = state_.sessions.find(request.session_id());
      if (found == state_.sessions.end()) return UnknownSession(request.session_id());
      history = found->second.tokens();
    }
    answer.prompt_tokens = history + PromptTokens(request);
    const uint32_t context = state_.behaviour.context_length;
    if (answer.prompt_tokens > context) {
      return {grpc::StatusCode::OUT_OF_RANGE,
              absl::StrCat("history and turn have ", answer.prompt_tokens,
                           " tokens; the context is ", context)};
    }
    answer.generation_id = absl::StrCat("g", state_.next_id++);
    answer.session_id = request.session_id();
    answer.seed = request.sampling().has_seed() ? request.sampling().seed() : 4711;
    answer.logprobs = request.response_options().has_logprobs();
    answer.tokens = state_.behaviour.answer_tokens;
    const bool to_the_end = request.stopping().ignore_eos();
    const auto cut = [&answer, to_the_end](uint32_t most, v1::Limit limit) {
      if (!to_the_end && most >= answer.tokens) return;
      answer.tokens = most;
      answer.limit = limit;
    };
    if (request.stopping().has_max_tokens()) {
      cut(request.stopping().max_tokens(), v1::LIMIT_MAX_TOKENS);
    }
    if (context - answer.prompt_tokens < answer.tokens) {
      cut(context - answer.prompt_tokens, v1::LIMIT_CONTEXT);
    }
    return grpc::Status::OK;
  }

  static v1::GenerateEvent NextEvent(Answer& answer) {
    v1::GenerateEvent event;
    event.set_seq(answer.seq++);
    return event;
  }

  static v1::GenerateEvent Accepted(Answer& answer) {
    v1::GenerateEvent event = NextEvent(answer);
    event.mutable_accepted()->set_generation_id(answer.generation_id);
    event.mutable_accepted()->set_seed(answer.seed);
    return event;
  }

  static v1::GenerateEvent Delta(Answer& answer, uint32_t first, uint32_t count) {
    v1::GenerateEvent event = NextEvent(answer);
    v1::Delta* const delta = event.mutable_delta();
    for (uint32_t i = first + 1; i <= first + count; ++i) {
      delta->mutable_text()->append(absl::StrCat("w", i, " "));
      delta->add_token_ids(100 + i);
      if (!answer.logprobs) continue;
      v1::TokenLogprobs* const logprobs = delta->add_logprobs();
      logprobs->set_token_id(100 + i);
      logprobs->set_logprob(-0.5f);
    }
    return event;
  }

  v1::GenerateEvent Finish(Answer& answer, uint32_t done) {
    const std::lock_guard lock(state_.mutex);
    v1::GenerateEvent event = NextEvent(answer);
    v1::Finished* const finished = event.mutable_finished();
    if (state_.aborted.count(answer.generation_id) > 0) {
      finished->set_reason(v1::FINISH_REASON_CANCELLED);
    } else if (answer.limit != v1::LIMIT_UNSPECIFIED) {
      finished->set_reason(v1::FINISH_REASON_LENGTH);
      finished->set_limit(answer.limit);
    } else {
      finished->set_reason(v1::FINISH_REASON_STOP);
      finished->set_stop_id(500);
    }
    finished->mutable_usage()->set_prompt_tokens(answer.prompt_tokens);
    finished->mutable_usage()->set_completion_tokens(done);
    const auto session = state_.sessions.find(answer.session_id);
    if (session != state_.sessions.end()) {
      session->second.set_tokens(answer.prompt_tokens + done);
      session->second.set_turn(session->second.turn() + 1);
      finished->set_turn(session->second.turn());
    }
    return event;
  }

  bool Aborted(const Answer& answer) {
    const std::lock_guard lock(state_.mutex);
    return state_.aborted.count(answer.generation_id) > 0;
  }

  State& state_;
};

class FakeServer::Sessions final : public v1::SessionService::Service {
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
    state_.sessions[response->id()] = *response;
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
    *response = found->second;
    return grpc::Status::OK;
  }

  grpc::Status CloseSession(grpc::ServerContext*, const v1::CloseSessionRequest* request,
                            v1::CloseSessionResponse*) override {
    const std::lock_guard lock(state_.mutex);
    if (state_.sessions.erase(request->session_id()) == 0) {
      return UnknownSession(request->session_id());
    }
    ++state_.seen.sessions_closed;
    return grpc::Status::OK;
  }

 private:
  State& state_;
};

class FakeServer::Monitor final : public v1::MonitorService::Service {
 public:
  explicit Monitor(State& state) : state_(state) {}

  grpc::Status GetPool(grpc::ServerContext*, const v1::GetPoolRequest*,
                       v1::PoolMemory* response) override {
    const std::lock_guard lock(state_.mutex);
    *response = state_.Pool();
    return grpc::Status::OK;
  }

  grpc::Status GetSessionMemory(grpc::ServerContext*, const v1::GetSessionMemoryRequest* request,
                                v1::SessionMemory* response) override {
    const std::lock_guard lock(state_.mutex);
    const auto found = state_.sessions.find(request->session_id());
    if (found == state_.sessions.end()) return UnknownSession(request->session_id());
    *response = state_.MemoryOf(found->second);
    return grpc::Status::OK;
  }

  grpc::Status GetLoad(grpc::ServerContext*, const v1::GetLoadRequest*,
                       v1::Load* response) override {
    const std::lock_guard lock(state_.mutex);
    *response = state_.LoadNow();
    return grpc::Status::OK;
  }

  grpc::Status WatchMemory(grpc::ServerContext* context, const v1::WatchMemoryRequest* request,
                           grpc::ServerWriter<v1::MemorySnapshot>* writer) override {
    const std::chrono::nanoseconds interval(request->interval().seconds() * 1'000'000'000 +
                                            request->interval().nanos());
    std::unique_lock lock(state_.mutex);
    while (!context->IsCancelled() && !state_.down) {
      v1::MemorySnapshot snapshot;
      *snapshot.mutable_pool() = state_.Pool();
      *snapshot.mutable_load() = state_.LoadNow();
      for (const auto& [id, session] : state_.sessions) {
        *snapshot.add_sessions() = state_.MemoryOf(session);
      }
      lock.unlock();
      const bool written = writer->Write(snapshot);
      lock.lock();
      if (!written) break;
      state_.changed.wait_for(lock, interval);
    }
    return grpc::Status::OK;
  }

 private:
  State& state_;
};

class FakeServer::Admin final : public v1::AdminService::Service {
 public:
  explicit Admin(State& state) : state_(state) {}

  grpc::Status Drain(grpc::ServerContext*, const v1::DrainRequest*,
                     v1::DrainResponse* response) override {
    response->set_live_generations(2);
    return grpc::Status::OK;
  }

  grpc::Status CheckInvariants(grpc::ServerContext*, const v1::CheckInvariantsRequest*,
                               v1::CheckInvariantsResponse* response) override {
    response->set_ok(state_.behaviour.ledger_ok);
    response->set_tick(42);
    if (!state_.behaviour.ledger_ok) response->add_differences("block 7 is held twice");
    return grpc::Status::OK;
  }

 private:
  State& state_;
};

FakeServer::FakeServer(Behaviour behaviour)
    : state_(std::make_unique<State>()),
      inference_(std::make_unique<Inference>(*state_)),
      sessions_(std::make_unique<Sessions>(*state_)),
      monitor_(std::make_unique<Monitor>(*state_)),
      admin_(std::make_unique<Admin>(*state_)) {
  state_->behaviour = std::move(behaviour);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(inference_.get());
  builder.RegisterService(sessions_.get());
  builder.RegisterService(monitor_.get());
  builder.RegisterService(admin_.get());
  server_ = builder.BuildAndStart();
  LUNA_CHECK(server_ != nullptr) << "the fake server did not start";
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeServer::~FakeServer() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->down = true;
    state_->changed.notify_all();
  }
  server_->Shutdown(std::chrono::system_clock::now());
}

Seen FakeServer::seen() const {
  const std::lock_guard lock(state_->mutex);
  return state_->seen;
}

int FakeServer::open_sessions() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int>(state_->sessions.size());
}

}  // namespace luna::fake
