// A whole server in the test's own process, on a port of its own, and what tests ask it.
#ifndef LUNA_TESTS_INTEGRATION_TEST_SERVER_H_
#define LUNA_TESTS_INTEGRATION_TEST_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "luna/rpc/error_details.pb.h"
#include "luna/rpc/health.grpc.pb.h"
#include "luna/v1/admin.grpc.pb.h"
#include "luna/v1/inference.grpc.pb.h"
#include "luna/v1/monitor.grpc.pb.h"
#include "luna/v1/session.grpc.pb.h"
#include "server/instance.h"
#include "server/options.h"
#include "server/rpc/rpc_server.h"

namespace luna::integration {

inline constexpr char kTinyModel[] = "tests/golden/models/tiny-gpt2";  // context 96, vocabulary 320
inline constexpr char kStoryModel[] = "models/luna-tiny";              // context 512, Korean too
// Steps of milliseconds: what a test does during an answer happens during it.
inline constexpr char kSlowModel[] = "dummy:luna";  // context 512

// The stubs of one connection.
struct Client {
  explicit Client(const std::string& address, grpc::ChannelArguments arguments = {});

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::InferenceService::Stub> inference;
  std::unique_ptr<v1::SessionService::Stub> sessions;
  std::unique_ptr<v1::MonitorService::Stub> monitor;
  std::unique_ptr<v1::AdminService::Stub> admin;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

class TestServer {
 public:
  // `options` needs a model; the port is always a free one. Fails the test and the process if the
  // server does not start.
  explicit TestServer(server::Options options);
  // A server whose model is still loading.
  static std::unique_ptr<TestServer> Loading();
  ~TestServer();

  Client& client() { return *client_; }
  // The server at another of this machine's addresses.
  std::string AddressAt(const std::string& host) const;
  server::Instance& instance() { return *instance_; }
  rpc::RpcServer& rpc() { return *rpc_; }
  // Like SIGTERM, without waiting.
  void Drain();

 private:
  TestServer() = default;
  void Listen(const std::string& address);

  std::unique_ptr<rpc::RpcServer> rpc_;
  std::unique_ptr<server::Instance> instance_;
  std::unique_ptr<Client> client_;
};

server::Options OptionsFor(const std::string& model);

// One Generate stream, open. Fails the test where events are not numbered from 0 without a gap, or
// where a stream that ends with OK has not exactly one terminal event, the last.
struct Stream {
  Stream(Client& client, const v1::GenerateRequest& request,
         std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // The next event of the kind; false if the stream ended before one came.
  bool ReadUntil(v1::GenerateEvent::EventCase kind);
  // Reads to the end.
  grpc::Status Finish();

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::GenerateEvent>> reader;
  // What came so far.
  std::vector<v1::GenerateEvent> events;
  std::string text;
  std::vector<uint32_t> token_ids;
  v1::Accepted accepted;
  v1::Prompt prompt;
  v1::Finished finished;
  std::optional<v1::GenerationError> error;

 private:
  bool ReadOne();
  bool terminated() const { return events.size() > 0 && IsTerminal(events.back()); }
  static bool IsTerminal(const v1::GenerateEvent& event) {
    return event.has_finished() || event.has_error();
  }
};

v1::GenerateRequest TextRequest(const std::string& text, int max_tokens);
// Long enough to be alive for a while on kSlowModel.
v1::GenerateRequest LongRequest();

// Unary calls with a generous deadline, so that a hang is a failure.
template <typename Stub, typename Request, typename Response>
grpc::Status Call(const std::unique_ptr<Stub>& stub,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response& response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  return (stub.get()->*method)(&context, request, &response);
}

grpc::Status Unary(Client& client, const v1::GenerateRequest& request,
                   v1::GenerateResponse& response);
std::string CreateSession(Client& client, const v1::CreateSessionRequest& request = {});
v1::Session GetSession(Client& client, const std::string& id);
std::vector<uint32_t> Tokenize(Client& client, const std::string& text);
grpc::health::v1::HealthCheckResponse::ServingStatus Health(Client& client,
                                                            const std::string& service = "");

// Watches the memory until a snapshot is as wanted; fails the test after a minute.
v1::MemorySnapshot WaitFor(Client& client,
                           const std::function<bool(const v1::MemorySnapshot&)>& wanted);
// Nothing runs, waits or is held by an ephemeral session.
bool IsIdle(const v1::MemorySnapshot& snapshot);
// Fails the test unless a recount of every block finds what the counters say.
void ExpectInvariants(Client& client);

// The detail of this type that the status carries, if it carries one.
template <typename T>
std::optional<T> Detail(const grpc::Status& status) {
  google::rpc::Status full;
  if (!full.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& any : full.details()) {
    T detail;
    if (any.Is<T>() && any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}
// Every error of ours carries the ErrorInfo that goes with its code.
void ExpectDetails(const grpc::Status& status);
// A status of this code, with its details.
void ExpectError(const grpc::Status& status, grpc::StatusCode code);
// The field that the status names, or empty.
std::string ViolatedField(const grpc::Status& status);

}  // namespace luna::integration

#endif  // LUNA_TESTS_INTEGRATION_TEST_SERVER_H_
