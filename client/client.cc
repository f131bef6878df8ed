#include "client/client.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "luna/rpc/health.grpc.pb.h"

namespace luna::client {
namespace {

std::chrono::system_clock::time_point DeadlineIn(absl::Duration timeout) {
  return std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout);
}

}  // namespace

// Ties a cancellation, if there is one, to a call for as long as the call's context lives.
class Attachment {
 public:
  Attachment(Cancellation* cancellation, grpc::ClientContext& context)
      : cancellation_(cancellation) {
    if (cancellation_ != nullptr) cancellation_->Attach(&context);
  }
  ~Attachment() {
    if (cancellation_ != nullptr) cancellation_->Attach(nullptr);
  }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

 private:
  Cancellation* const cancellation_;
};

void Cancellation::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  // TryCancel only marks the call; it runs nothing of ours, so it may be called under the lock that
  // keeps the context alive.
  if (context_ != nullptr) context_->TryCancel();
}

bool Cancellation::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void Cancellation::Attach(grpc::ClientContext* context) {
  const std::lock_guard lock(mutex_);
  context_ = context;
  if (context_ != nullptr && cancelled_) context_->TryCancel();
}

Client::Client(std::shared_ptr<grpc::ChannelInterface> channel, absl::Duration call_timeout)
    : channel_(std::move(channel)),
      call_timeout_(call_timeout),
      inference_(v1::InferenceService::NewStub(channel_)),
      sessions_(v1::SessionService::NewStub(channel_)),
      monitor_(v1::MonitorService::NewStub(channel_)),
      admin_(v1::AdminService::NewStub(channel_)) {}

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Client::Call(Stub& stub,
                                      grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, Response*),
                                      const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(call_timeout_));
  Response response;
  LUNA_RETURN_IF_ERROR(FromGrpc((stub.*method)(&context, request, &response)));
  return response;
}

absl::Status Client::ReadEvents(const v1::GenerateRequest& request,
                                const std::function<absl::Status(const v1::GenerateEvent&)>& add,
                                const EventCallback& on_event, Cancellation* cancellation) {
  grpc::ClientContext context;
  const Attachment attachment(cancellation, context);
  const auto reader = inference_->Generate(&context, request);
  absl::Status broken;
  v1::GenerateEvent event;
  while (reader->Read(&event)) {
    if (!broken.ok()) continue;  // only drains what is left of a stream that is being cancelled
    broken = add(event);
    if (!broken.ok()) {
      context.TryCancel();
    } else if (on_event) {
      on_event(event);
    }
  }
  const absl::Status status = FromGrpc(reader->Finish());
  return broken.ok() ? status : broken;
}

absl::StatusOr<Answer> Client::Generate(const v1::GenerateRequest& request,
                                        const EventCallback& on_event, Cancellation* cancellation) {
  Answer answer;
  LUNA_RETURN_IF_ERROR(ReadEvents(
      request, [&answer](const v1::GenerateEvent& event) { return answer.Add(event); }, on_event,
      cancellation));
  if (!answer.has_finished) return absl::DataLossError("the stream ended without a finish");
  return answer;
}

absl::StatusOr<Answers> Client::GenerateMany(const v1::GenerateRequest& request,
                                             const EventCallback& on_event,
                                             Cancellation* cancellation) {
  Answers answers(request.has_n() ? request.n() : 1);
  LUNA_RETURN_IF_ERROR(ReadEvents(
      request, [&answers](const v1::GenerateEvent& event) { return answers.Add(event); }, on_event,
      cancellation));
  LUNA_RETURN_IF_ERROR(answers.AllEnded());
  return answers;
}

absl::StatusOr<v1::GenerateResponse> Client::GenerateUnary(const v1::GenerateRequest& request) {
  grpc::ClientContext context;  // no deadline: an answer takes what it takes
  v1::GenerateResponse response;
  LUNA_RETURN_IF_ERROR(FromGrpc(inference_->GenerateUnary(&context, request, &response)));
  return response;
}

absl::StatusOr<bool> Client::Abort(std::string_view generation_id, bool keep_partial) {
  v1::AbortRequest request;
  request.set_generation_id(std::string(generation_id));
  request.set_keep_partial(keep_partial);
  LUNA_ASSIGN_OR_RETURN(const auto response,
                        Call(*inference_, &v1::InferenceService::Stub::Abort, request));
  return response.was_live();
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request) {
  return Call(*inference_, &v1::InferenceService::Stub::Tokenize, request);
}

absl::StatusOr<std::string> Client::Detokenize(const std::vector<uint32_t>& ids) {
  v1::DetokenizeRequest request;
  request.mutable_ids()->Add(ids.begin(), ids.end());
  LUNA_ASSIGN_OR_RETURN(const auto response,
                        Call(*inference_, &v1::InferenceService::Stub::Detokenize, request));
  return response.text();
}

absl::StatusOr<v1::GetModelResponse> Client::GetModel() {
  return Call(*inference_, &v1::InferenceService::Stub::GetModel, v1::GetModelRequest());
}

absl::StatusOr<v1::Session> Client::CreateSession(const v1::CreateSessionRequest& request) {
  return Call(*sessions_, &v1::SessionService::Stub::CreateSession, request);
}

absl::StatusOr<v1::Session> Client::GetSession(std::string_view session_id) {
  v1::GetSessionRequest request;
  request.set_session_id(std::string(session_id));
  return Call(*sessions_, &v1::SessionService::Stub::GetSession, request);
}

absl::StatusOr<std::vector<v1::Session>> Client::ListSessions() {
  LUNA_ASSIGN_OR_RETURN(
      const auto response,
      Call(*sessions_, &v1::SessionService::Stub::ListSessions, v1::ListSessionsRequest()));
  return std::vector<v1::Session>(response.sessions().begin(), response.sessions().end());
}

absl::StatusOr<v1::Session> Client::UpdateSession(const v1::UpdateSessionRequest& request) {
  return Call(*sessions_, &v1::SessionService::Stub::UpdateSession, request);
}

absl::StatusOr<v1::Session> Client::ResetSession(std::string_view session_id, uint32_t to_turn) {
  v1::ResetSessionRequest request;
  request.set_session_id(std::string(session_id));
  request.set_to_turn(to_turn);
  return Call(*sessions_, &v1::SessionService::Stub::ResetSession, request);
}

absl::Status Client::CloseSession(std::string_view session_id) {
  v1::CloseSessionRequest request;
  request.set_session_id(std::string(session_id));
  return Call(*sessions_, &v1::SessionService::Stub::CloseSession, request).status();
}

absl::StatusOr<v1::Session> Client::ForkSession(const v1::ForkSessionRequest& request) {
  return Call(*sessions_, &v1::SessionService::Stub::ForkSession, request);
}

absl::Status Client::SaveSession(std::string_view session_id, const DataCallback& on_data,
                                 Cancellation* cancellation) {
  grpc::ClientContext context;
  const Attachment attachment(cancellation, context);
  v1::SaveSessionRequest request;
  request.set_session_id(std::string(session_id));
  const auto reader = sessions_->SaveSession(&context, request);
  absl::Status broken;
  bool empty = true;
  v1::SessionChunk chunk;
  while (reader->Read(&chunk)) {
    if (!broken.ok() || chunk.data().empty()) continue;
    empty = false;
    broken = on_data(chunk.data());
    if (!broken.ok()) context.TryCancel();
  }
  const absl::Status status = FromGrpc(reader->Finish());
  LUNA_RETURN_IF_ERROR(broken);
  LUNA_RETURN_IF_ERROR(status);
  return empty ? absl::DataLossError("the server sent an empty snapshot") : absl::OkStatus();
}

absl::Status Client::SaveSessionAs(std::string_view session_id, std::string_view name) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(call_timeout_));
  v1::SaveSessionRequest request;
  request.set_session_id(std::string(session_id));
  request.set_name(std::string(name));
  const auto reader = sessions_->SaveSession(&context, request);
  v1::SessionChunk chunk;
  while (reader->Read(&chunk)) {
  }
  return FromGrpc(reader->Finish());
}

absl::StatusOr<v1::Session> Client::RestoreSession(const DataSource& next,
                                                   Cancellation* cancellation) {
  grpc::ClientContext context;
  const Attachment attachment(cancellation, context);
  v1::Session session;
  const auto writer = sessions_->RestoreSession(&context, &session);
  absl::Status broken;
  while (true) {
    absl::StatusOr<std::string> data = next();
    broken = data.status();
    if (!broken.ok()) context.TryCancel();
    if (!broken.ok() || data->empty()) break;
    v1::SessionChunk chunk;
    chunk.set_data(*std::move(data));
    if (!writer->Write(chunk)) break;  // refused; the status says why
  }
  writer->WritesDone();
  const absl::Status status = FromGrpc(writer->Finish());
  LUNA_RETURN_IF_ERROR(broken);
  LUNA_RETURN_IF_ERROR(status);
  return session;
}

absl::StatusOr<v1::Session> Client::RestoreSessionFrom(std::string_view name) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(call_timeout_));
  v1::Session session;
  const auto writer = sessions_->RestoreSession(&context, &session);
  v1::SessionChunk chunk;
  chunk.set_name(std::string(name));
  writer->Write(chunk);
  writer->WritesDone();
  LUNA_RETURN_IF_ERROR(FromGrpc(writer->Finish()));
  return session;
}

absl::StatusOr<v1::PoolMemory> Client::GetPool() {
  return Call(*monitor_, &v1::MonitorService::Stub::GetPool, v1::GetPoolRequest());
}

absl::StatusOr<v1::SessionMemory> Client::GetSessionMemory(std::string_view session_id) {
  v1::GetSessionMemoryRequest request;
  request.set_session_id(std::string(session_id));
  return Call(*monitor_, &v1::MonitorService::Stub::GetSessionMemory, request);
}

absl::StatusOr<v1::Load> Client::GetLoad() {
  return Call(*monitor_, &v1::MonitorService::Stub::GetLoad, v1::GetLoadRequest());
}

absl::Status Client::WatchMemory(absl::Duration interval, const SnapshotCallback& on_snapshot,
                                 Cancellation* cancellation) {
  grpc::ClientContext context;
  const Attachment attachment(cancellation, context);
  v1::WatchMemoryRequest request;
  request.mutable_interval()->set_seconds(absl::ToInt64Seconds(interval));
  request.mutable_interval()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(interval % absl::Seconds(1))));
  const auto reader = monitor_->WatchMemory(&context, request);
  v1::MemorySnapshot snapshot;
  bool enough = false;
  while (reader->Read(&snapshot)) {
    if (enough) continue;
    enough = !on_snapshot(snapshot);
    if (enough) context.TryCancel();
  }
  const absl::Status status = FromGrpc(reader->Finish());
  return enough && absl::IsCancelled(status) ? absl::OkStatus() : status;
}

absl::StatusOr<uint32_t> Client::Drain() {
  LUNA_ASSIGN_OR_RETURN(const auto response,
                        Call(*admin_, &v1::AdminService::Stub::Drain, v1::DrainRequest()));
  return response.live_generations();
}

absl::StatusOr<v1::CheckInvariantsResponse> Client::CheckInvariants() {
  return Call(*admin_, &v1::AdminService::Stub::CheckInvariants, v1::CheckInvariantsRequest());
}

absl::StatusOr<v1::EvictSessionResponse> Client::EvictSession(std::string_view session_id,
                                                              bool force) {
  v1::EvictSessionRequest request;
  request.set_session_id(std::string(session_id));
  request.set_force(force);
  return Call(*admin_, &v1::AdminService::Stub::EvictSession, request);
}

absl::StatusOr<v1::SetQuotaResponse> Client::SetQuota(const v1::SetQuotaRequest& request) {
  return Call(*admin_, &v1::AdminService::Stub::SetQuota, request);
}

absl::Status Client::CheckHealth(std::string_view service) {
  const auto stub = grpc::health::v1::Health::NewStub(channel_);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(service));
  LUNA_ASSIGN_OR_RETURN(const auto response,
                        Call(*stub, &grpc::health::v1::Health::Stub::Check, request));
  if (response.status() == grpc::health::v1::HealthCheckResponse::SERVING) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(service.empty() ? "the server" : AbslView(service), " is ",
                   grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status())));
}

}  // namespace luna::client
