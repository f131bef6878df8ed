#include "server/rpc/admin_service.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/status.h"
#include "server/rpc/unary_call.h"

namespace luna::rpc {
namespace {

absl::Status CheckLocal(const Caller& caller) {
  if (caller.loopback) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("AdminService answers on loopback only; this call came from ", caller.name));
}

grpc::Status NotOffered(const grpc::ServerContext& context, const char* what) {
  absl::Status status = CheckLocal(ParsePeer(context.peer()));
  if (status.ok()) {
    status = absl::UnimplementedError(absl::StrCat(what, " is not offered by this server"));
  }
  return ToGrpc(status);
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

}  // namespace

grpc::Status AdminService::Service::EvictSession(grpc::ServerContext* context,
                                                 const v1::EvictSessionRequest*,
                                                 v1::EvictSessionResponse*) {
  return NotOffered(*context, "EvictSession");
}

grpc::Status AdminService::Service::SetQuota(grpc::ServerContext* context,
                                             const v1::SetQuotaRequest*, v1::SetQuotaResponse*) {
  return NotOffered(*context, "SetQuota");
}

void AdminService::Listen() {
  methods_ = {
      ServeUnary(host_, &service_, &Service::RequestDrain, Drain(begin_drain_)),
      ServeUnary(host_, &service_, &Service::RequestCheckInvariants, CheckInvariants),
  };
}

}  // namespace luna::rpc
