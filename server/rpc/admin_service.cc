#include "server/rpc/admin_service.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/convert.h"
#include "server/rpc/unary_call.h"

namespace luna::rpc {
namespace {

absl::Status CheckLocal(const Caller& caller) {
  if (caller.loopback) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("AdminService answers on loopback only; this call came from ", caller.name));
}

auto Drain(std::function<void()> begin_drain) {
  return [begin_drain](const Serving& serving, const Caller& caller, const v1::DrainRequest&,
                       Reply<v1::DrainResponse> reply) {
    if (absl::Status local = CheckLocal(caller); !local.ok()) return reply(local);
    begin_drain();
    serving.engine->Drain(reply.With<uint32_t>([](uint32_t live) {
      v1::DrainResponse response;
      response.set_live_generations(live);
      return response;
    }));
  };
}

void CheckInvariants(const Serving& serving, const Caller& caller,
                     const v1::CheckInvariantsRequest&, Reply<v1::CheckInvariantsResponse> reply) {
  if (absl::Status local = CheckLocal(caller); !local.ok()) return reply(local);
  // Both commands are carried out in this order, by the same tick unless one begins between them.
  auto tick = std::make_shared<uint64_t>(0);
  serving.engine->TakeSnapshot([tick](absl::StatusOr<engine::Snapshot> snapshot) {
    if (snapshot.ok()) *tick = snapshot->tick;
  });
  serving.engine->CheckInvariants(
      reply.With<std::vector<std::string>>([tick](const std::vector<std::string>& differences) {
        v1::CheckInvariantsResponse response;
        response.set_ok(differences.empty());
        response.set_tick(*tick);
        for (const std::string& difference : differences) response.add_differences(difference);
        return response;
      }));
}

void EvictSession(const Serving& serving, const Caller& caller,
                  const v1::EvictSessionRequest& request, Reply<v1::EvictSessionResponse> reply) {
  if (absl::Status local = CheckLocal(caller); !local.ok()) return reply(local);
  serving.engine->EvictSession(ToSessionRef(request.session_id()), request.force(),
                               reply.With<engine::Eviction>([](const engine::Eviction& eviction) {
                                 v1::EvictSessionResponse response;
                                 response.set_evicted_bytes(eviction.evicted_bytes);
                                 response.set_charged_bytes(eviction.charged_bytes);
                                 return response;
                               }));
}

// What is too large for the type is more than any pool has.
int64_t ToBytes(uint64_t bytes) {
  return static_cast<int64_t>(std::min<uint64_t>(bytes, std::numeric_limits<int64_t>::max()));
}

void SetQuota(const Serving& serving, const Caller& caller, const v1::SetQuotaRequest& request,
              Reply<v1::SetQuotaResponse> reply) {
  if (absl::Status local = CheckLocal(caller); !local.ok()) return reply(local);
  engine::LimitsUpdate update;
  if (request.has_quota_bytes()) update.quota_bytes = ToBytes(request.quota_bytes());
  if (request.has_guarantee_bytes()) update.guarantee_bytes = ToBytes(request.guarantee_bytes());
  serving.engine->SetLimits(
      ToSessionRef(request.session_id()), update,
      reply.With<engine::SessionLimits>([](const engine::SessionLimits& limits) {
        v1::SetQuotaResponse response;
        response.set_quota_bytes(limits.quota_bytes);
        response.set_guarantee_bytes(limits.guarantee_bytes);
        return response;
      }));
}

}  // namespace

void AdminService::Listen() {
  methods_ = {
      ServeUnary(host_, &service_, &Service::RequestDrain, Drain(begin_drain_)),
      ServeUnary(host_, &service_, &Service::RequestCheckInvariants, CheckInvariants),
      ServeUnary(host_, &service_, &Service::RequestEvictSession, EvictSession),
      ServeUnary(host_, &service_, &Service::RequestSetQuota, SetQuota),
  };
}

}  // namespace luna::rpc
