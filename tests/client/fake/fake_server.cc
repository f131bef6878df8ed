#include "tests/client/fake/fake_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "luna/rpc/error_details.pb.h"
#include "luna/v1/monitor.grpc.pb.h"
#include "tests/client/fake/admin.h"
#include "tests/client/fake/inference.h"
#include "tests/client/fake/sessions.h"
#include "tests/client/fake/state.h"

namespace luna::fake {
namespace {

template <typename Detail>
grpc::Status WithDetail(grpc::StatusCode code, const std::string& message, const Detail& detail) {
  google::rpc::Status status;
  status.set_code(code);
  status.set_message(message);
  status.add_details()->PackFrom(detail);
  return grpc::Status(code, message, status.SerializeAsString());
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

class Monitor final : public v1::MonitorService::Service {
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

void FakeServer::AwaitHangingSave() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->save_hangs; });
}

int FakeServer::open_sessions() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int>(state_->sessions.size());
}

}  // namespace luna::fake
