// The client of a Luna server: every call as one blocking function with a StatusOr. Errors carry
// the server's details (client/status.h).
#ifndef LUNA_CLIENT_CLIENT_H_
#define LUNA_CLIENT_CLIENT_H_

#include <grpcpp/client_context.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/answer.h"
#include "client/channel.h"
#include "luna/v1/admin.grpc.pb.h"
#include "luna/v1/inference.grpc.pb.h"
#include "luna/v1/monitor.grpc.pb.h"
#include "luna/v1/session.grpc.pb.h"

namespace luna::client {

// Ends a stream from another thread. Thread-safe; may be cancelled before, during and after the
// call that it is given to, and serves one call at a time.
class Cancellation {
 public:
  void Cancel();
  bool cancelled() const;

 private:
  friend class Attachment;
  // Null when the call is over.
  void Attach(grpc::ClientContext* context);

  mutable std::mutex mutex_;
  grpc::ClientContext* context_ = nullptr;
  bool cancelled_ = false;
};

// Thread-safe. Calls but the streams end by themselves after `call_timeout` with DEADLINE_EXCEEDED.
class Client {
 public:
  using EventCallback = std::function<void(const v1::GenerateEvent&)>;
  // False ends the stream.
  using SnapshotCallback = std::function<bool(const v1::MemorySnapshot&)>;
  using DataCallback = std::function<absl::Status(std::string_view)>;
  // The next piece, of at most kMaxChunkBytes; empty: the end.
  using DataSource = std::function<absl::StatusOr<std::string>()>;
  static constexpr size_t kMaxChunkBytes = 512 * 1024;

  explicit Client(std::shared_ptr<grpc::ChannelInterface> channel,
                  absl::Duration call_timeout = absl::Seconds(30));

  // Streams one answer; `on_event` (may be null) sees every event on this thread, before the joined
  // answer is returned. Cancelled: CANCELLED.
  absl::StatusOr<Answer> Generate(const v1::GenerateRequest& request,
                                  const EventCallback& on_event = nullptr,
                                  Cancellation* cancellation = nullptr);
  // The same for the request's n continuations, whose events come mixed. An error event ends its
  // own continuation alone and is in the answers; the status is the stream's.
  absl::StatusOr<Answers> GenerateMany(const v1::GenerateRequest& request,
                                       const EventCallback& on_event = nullptr,
                                       Cancellation* cancellation = nullptr);
  absl::StatusOr<v1::GenerateResponse> GenerateUnary(const v1::GenerateRequest& request);
  // True if it was live.
  absl::StatusOr<bool> Abort(std::string_view generation_id, bool keep_partial);
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request);
  absl::StatusOr<std::string> Detokenize(const std::vector<uint32_t>& ids);
  absl::StatusOr<v1::GetModelResponse> GetModel();

  absl::StatusOr<v1::Session> CreateSession(const v1::CreateSessionRequest& request);
  absl::StatusOr<v1::Session> GetSession(std::string_view session_id);
  absl::StatusOr<std::vector<v1::Session>> ListSessions();
  absl::StatusOr<v1::Session> UpdateSession(const v1::UpdateSessionRequest& request);
  // Keeps the first `to_turn` turns.
  absl::StatusOr<v1::Session> ResetSession(std::string_view session_id, uint32_t to_turn = 0);
  absl::Status CloseSession(std::string_view session_id);
  // The new session.
  absl::StatusOr<v1::Session> ForkSession(const v1::ForkSessionRequest& request);

  // Streams a session's snapshot; an error of `on_data` ends the stream and is returned. Not OK:
  // what came before is no snapshot, though it may look like one.
  absl::Status SaveSession(std::string_view session_id, const DataCallback& on_data,
                           Cancellation* cancellation = nullptr);
  // Into the entry `name` of the server's state directory.
  absl::Status SaveSessionAs(std::string_view session_id, std::string_view name);
  // From what SaveSession gave, cut anywhere; an error of `next` ends the call, changes nothing on
  // the server and is returned.
  absl::StatusOr<v1::Session> RestoreSession(const DataSource& next,
                                             Cancellation* cancellation = nullptr);
  absl::StatusOr<v1::Session> RestoreSessionFrom(std::string_view name);

  absl::StatusOr<v1::PoolMemory> GetPool();
  // By id or handle.
  absl::StatusOr<v1::SessionMemory> GetSessionMemory(std::string_view session_id);
  absl::StatusOr<v1::Load> GetLoad();
  // Until the callback returns false, the call is cancelled or the server ends it.
  absl::Status WatchMemory(absl::Duration interval, const SnapshotCallback& on_snapshot,
                           Cancellation* cancellation = nullptr);

  // Live generations that the drain waits for.
  absl::StatusOr<uint32_t> Drain();
  absl::StatusOr<v1::CheckInvariantsResponse> CheckInvariants();
  // By id or handle; without `force` the guarantee stays.
  absl::StatusOr<v1::EvictSessionResponse> EvictSession(std::string_view session_id, bool force);
  // What is unset stays as it is.
  absl::StatusOr<v1::SetQuotaResponse> SetQuota(const v1::SetQuotaRequest& request);

  // grpc.health.v1: OK when SERVING; `service` empty asks for the whole server. UNAVAILABLE when it
  // is not serving.
  absl::Status CheckHealth(std::string_view service = "");

 private:
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request);
  // Reads a Generate stream to its end. The first error of `add` ends it and is returned.
  absl::Status ReadEvents(const v1::GenerateRequest& request,
                          const std::function<absl::Status(const v1::GenerateEvent&)>& add,
                          const EventCallback& on_event, Cancellation* cancellation);

  std::shared_ptr<grpc::ChannelInterface> channel_;
  absl::Duration call_timeout_;
  std::unique_ptr<v1::InferenceService::Stub> inference_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::MonitorService::Stub> monitor_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
};

}  // namespace luna::client

#endif  // LUNA_CLIENT_CLIENT_H_
