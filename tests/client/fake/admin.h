// The fake server's operator: a ledger that is right or wrong as ordered, evictions, limits.
#ifndef LUNA_TESTS_CLIENT_FAKE_ADMIN_H_
#define LUNA_TESTS_CLIENT_FAKE_ADMIN_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "luna/v1/admin.grpc.pb.h"
#include "tests/client/fake/state.h"

namespace luna::fake {

class Admin final : public v1::AdminService::Service {
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
    if (response->ok()) return grpc::Status::OK;
    response->add_differences("block 7 is held twice");
    response->add_differences("block 9 is held by nobody");
    return grpc::Status::OK;
  }

  grpc::Status EvictSession(grpc::ServerContext*, const v1::EvictSessionRequest* request,
                            v1::EvictSessionResponse* response) override {
    const std::lock_guard lock(state_.mutex);
    v1::Session* const session = state_.Find(request->session_id());
    if (session == nullptr) return UnknownSession(request->session_id());
    const uint64_t keep = request->force() ? 0 : session->guarantee_bytes();
    response->set_evicted_bytes(state_.EvictTo(*session, keep));
    response->set_charged_bytes(state_.MemoryOf(*session).charged_bytes());
    return grpc::Status::OK;
  }

  grpc::Status SetQuota(grpc::ServerContext*, const v1::SetQuotaRequest* request,
                        v1::SetQuotaResponse* response) override {
    const std::lock_guard lock(state_.mutex);
    v1::Session* const session = state_.Find(request->session_id());
    if (session == nullptr) return UnknownSession(request->session_id());
    const auto whole = [](uint64_t bytes) { return bytes / kBlockBytes * kBlockBytes; };
    const uint64_t quota =
        whole(request->has_quota_bytes() ? request->quota_bytes() : session->quota_bytes());
    const uint64_t guarantee = whole(request->has_guarantee_bytes() ? request->guarantee_bytes()
                                                                    : session->guarantee_bytes());
    if (guarantee > quota) {
      return BadRequest("guarantee_bytes",
                        absl::StrCat(guarantee, " is above the session's quota, ", quota));
    }
    if (guarantee > kPoolBlocks * kBlockBytes) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "the pool cannot promise so much"};
    }
    session->set_quota_bytes(quota);
    session->set_guarantee_bytes(guarantee);
    state_.EvictTo(*session, quota);
    response->set_quota_bytes(quota);
    response->set_guarantee_bytes(guarantee);
    return grpc::Status::OK;
  }

 private:
  State& state_;
};

}  // namespace luna::fake

#endif  // LUNA_TESTS_CLIENT_FAKE_ADMIN_H_
