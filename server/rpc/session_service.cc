#include "server/rpc/session_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/convert.h"
#include "server/rpc/restore_call.h"
#include "server/rpc/save_call.h"
#include "server/rpc/unary_call.h"
#include "server/state/saved_session_check.h"

namespace luna::rpc {
namespace {

using engine::SessionInfo;

v1::Session Convert(const SessionInfo& info) { return ToProto(info); }

// A system prompt becomes tokens here, hence on a worker.
void RunOnWorker(Host* host, const Caller& caller, size_t bytes, const Reply<v1::Session>& reply,
                 std::function<void()> work) {
  if (host->workers().Run(caller.name, bytes, std::move(work))) return;
  reply(Host::WorkersAreBusy("texts wait for being tokenized"));
}

auto CreateSession(Host* host) {
  return [host](const Serving& serving, const Caller& caller,
                const v1::CreateSessionRequest& request, Reply<v1::Session> reply) {
    if (absl::Status open = host->CheckOpen(); !open.ok()) return reply(open);
    RunOnWorker(host, caller, request.ByteSizeLong(), reply,
                [&serving, name = caller.name, &request, reply] {
                  absl::StatusOr<engine::SessionSpec> spec = ToSessionSpec(request, serving);
                  if (!spec.ok()) return reply(spec.status());
                  spec->caller = name;
                  serving.engine->CreateSession(*std::move(spec), reply.With<SessionInfo>(Convert));
                });
  };
}

auto UpdateSession(Host* host) {
  return [host](const Serving& serving, const Caller& caller,
                const v1::UpdateSessionRequest& request, Reply<v1::Session> reply) {
    RunOnWorker(host, caller, request.ByteSizeLong(), reply, [&serving, &request, reply] {
      absl::StatusOr<engine::SessionUpdate> update = ToSessionUpdate(request, serving);
      if (!update.ok()) return reply(update.status());
      serving.engine->UpdateSession(request.session_id(), *std::move(update),
                                    reply.With<SessionInfo>(Convert));
    });
  };
}

void GetSession(const Serving& serving, const Caller&, const v1::GetSessionRequest& request,
                Reply<v1::Session> reply) {
  serving.engine->GetSession(request.session_id(), reply.With<SessionInfo>(Convert));
}

void ListSessions(const Serving& serving, const Caller& caller, const v1::ListSessionsRequest&,
                  Reply<v1::ListSessionsResponse> reply) {
  serving.engine->ListSessions(caller.name, reply.With<std::vector<SessionInfo>>(
                                                [](const std::vector<SessionInfo>& sessions) {
                                                  v1::ListSessionsResponse response;
                                                  for (const SessionInfo& info : sessions) {
                                                    *response.add_sessions() = ToProto(info);
                                                  }
                                                  return response;
                                                }));
}

void ResetSession(const Serving& serving, const Caller&, const v1::ResetSessionRequest& request,
                  Reply<v1::Session> reply) {
  serving.engine->ResetSession(request.session_id(), request.to_turn(),
                               reply.With<SessionInfo>(Convert));
}

void ForkSession(const Serving& serving, const Caller& caller,
                 const v1::ForkSessionRequest& request, Reply<v1::Session> reply) {
  if (absl::Status length = CheckLength("label", request.label(), kMaxLabelBytes); !length.ok()) {
    return reply(length);
  }
  engine::ForkSpec spec{.caller = caller.name};
  if (request.has_at_turn()) spec.at_turn = request.at_turn();
  if (!request.label().empty()) spec.label = request.label();
  serving.engine->ForkSession(request.session_id(), std::move(spec),
                              reply.With<SessionInfo>(Convert));
}

// What is saved of it goes too, before it is answered, and also of one that lost its place.
void CloseSession(const Serving& serving, const Caller&, const v1::CloseSessionRequest& request,
                  Reply<v1::CloseSessionResponse> reply) {
  const auto answer = [reply](const absl::Status& status) {
    status.ok() ? reply(v1::CloseSessionResponse()) : reply(status);
  };
  serving.engine->CloseSession(request.session_id(), [&serving, answer, id = request.session_id()](
                                                         const absl::StatusOr<bool>& closed) {
    const bool may_be_saved = closed.ok() || absl::IsNotFound(closed.status());
    if (serving.keeper == nullptr || !may_be_saved || !state::IsSessionKey(id)) {
      return answer(closed.status());
    }
    serving.keeper->Remove(id, [answer, status = closed.status()](const absl::Status& removed) {
      answer(absl::IsNotFound(removed) ? status : removed);
    });
  });
}

}  // namespace

void SessionService::Listen() {
  methods_ = {
      ServeUnary(host_, &service_, &Service::RequestCreateSession, CreateSession(host_)),
      ServeUnary(host_, &service_, &Service::RequestGetSession, GetSession),
      ServeUnary(host_, &service_, &Service::RequestListSessions, ListSessions),
      ServeUnary(host_, &service_, &Service::RequestUpdateSession, UpdateSession(host_)),
      ServeUnary(host_, &service_, &Service::RequestResetSession, ResetSession),
      ServeUnary(host_, &service_, &Service::RequestCloseSession, CloseSession),
      ServeUnary(host_, &service_, &Service::RequestForkSession, ForkSession),
  };
  SaveCall::Listen(host_, &service_);
  RestoreCall::Listen(host_, &service_);
}

}  // namespace luna::rpc
