#include "tests/integration/test_server.h"

#include <google/protobuf/util/time_util.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/status/status.h"
#include "core/base/check.h"

namespace luna::integration {
namespace {

constexpr std::chrono::seconds kPatience(60);

}  // namespace

Client::Client(const std::string& address, grpc::ChannelArguments arguments) {
  // A connection of its own, whatever other channels of this process there are.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  inference = v1::InferenceService::NewStub(channel);
  sessions = v1::SessionService::NewStub(channel);
  monitor = v1::MonitorService::NewStub(channel);
  admin = v1::AdminService::NewStub(channel);
  health = grpc::health::v1::Health::NewStub(channel);
}

server::Options OptionsFor(const std::string& model) {
  server::Options options;
  options.model = model;
  options.backend = "cpu";
  options.threads = 1;
  options.seed = 1;
  return options;
}

TestServer::TestServer(server::Options options) {
  options.listen.port = 0;
  Listen(options.listen.ToString());
  auto instance = server::Instance::Load(options, [rpc = rpc_.get()] { rpc->OnPublished(); });
  LUNA_CHECK(instance.ok()) << instance.status();
  instance_ = *std::move(instance);
  rpc_->Serve(&instance_->serving());
}

std::unique_ptr<TestServer> TestServer::Loading() {
  std::unique_ptr<TestServer> server(new TestServer());
  server->Listen("127.0.0.1:0");
  return server;
}

void TestServer::Listen(const std::string& address) {
  spdlog::set_level(spdlog::level::warn);
  auto rpc = rpc::RpcServer::Start(address);
  LUNA_CHECK(rpc.ok()) << rpc.status();
  rpc_ = *std::move(rpc);
  client_ = std::make_unique<Client>(AddressAt("127.0.0.1"));
}

TestServer::~TestServer() {
  if (instance_ != nullptr) instance_->Stop();
  rpc_->Stop();
}

std::string TestServer::AddressAt(const std::string& host) const {
  return server::ListenAddress{.host = host, .port = rpc_->port()}.ToString();
}

void TestServer::Drain() {
  rpc_->BeginDrain();
  instance_->engine().Drain([](absl::StatusOr<uint32_t>) {});
}

Stream::Stream(Client& client, const v1::GenerateRequest& request,
               std::optional<std::chrono::milliseconds> timeout) {
  context.set_deadline(std::chrono::system_clock::now() +
                       timeout.value_or(std::chrono::milliseconds(kPatience)));
  reader = client.inference->Generate(&context, request);
}

bool Stream::ReadOne() {
  v1::GenerateEvent event;
  if (!reader->Read(&event)) return false;
  EXPECT_EQ(event.seq(), events.size());
  EXPECT_FALSE(terminated()) << "after the end: " << event.ShortDebugString();
  if (event.has_accepted()) accepted = event.accepted();
  if (event.has_prompt()) prompt = event.prompt();
  if (event.has_finished()) finished = event.finished();
  if (event.has_error()) error = event.error();
  text += event.delta().text();
  token_ids.insert(token_ids.end(), event.delta().token_ids().begin(),
                   event.delta().token_ids().end());
  events.push_back(std::move(event));
  return true;
}

bool Stream::ReadUntil(v1::GenerateEvent::EventCase kind) {
  while (ReadOne()) {
    if (events.back().event_case() == kind) return true;
  }
  return false;
}

grpc::Status Stream::Finish() {
  while (ReadOne()) {
  }
  grpc::Status status = reader->Finish();
  EXPECT_TRUE(!status.ok() || terminated()) << events.size() << " events, and no end";
  return status;
}

v1::GenerateRequest TextRequest(const std::string& text, int max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

v1::GenerateRequest LongRequest() {
  v1::GenerateRequest request;
  for (uint32_t id = 1; id < 17; ++id) request.mutable_token_ids()->add_ids(id);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

grpc::Status Unary(Client& client, const v1::GenerateRequest& request,
                   v1::GenerateResponse& response) {
  return Call(client.inference, &v1::InferenceService::Stub::GenerateUnary, request, response);
}

std::string CreateSession(Client& client, const v1::CreateSessionRequest& request) {
  v1::Session session;
  const grpc::Status status =
      Call(client.sessions, &v1::SessionService::Stub::CreateSession, request, session);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return session.id();
}

v1::Session GetSession(Client& client, const std::string& id) {
  v1::GetSessionRequest request;
  request.set_session_id(id);
  v1::Session session;
  const grpc::Status status =
      Call(client.sessions, &v1::SessionService::Stub::GetSession, request, session);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return session;
}

std::vector<uint32_t> Tokenize(Client& client, const std::string& text) {
  v1::TokenizeRequest request;
  request.set_text(text);
  v1::TokenizeResponse response;
  const grpc::Status status =
      Call(client.inference, &v1::InferenceService::Stub::Tokenize, request, response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return {response.ids().begin(), response.ids().end()};
}

grpc::health::v1::HealthCheckResponse::ServingStatus Health(Client& client,
                                                            const std::string& service) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status =
      Call(client.health, &grpc::health::v1::Health::Stub::Check, request, response);
  EXPECT_TRUE(status.ok()) << service << ": " << status.error_message();
  return response.status();
}

v1::MemorySnapshot WaitFor(Client& client,
                           const std::function<bool(const v1::MemorySnapshot&)>& wanted) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::WatchMemoryRequest request;
  *request.mutable_interval() = google::protobuf::util::TimeUtil::MillisecondsToDuration(50);
  auto reader = client.monitor->WatchMemory(&context, request);
  v1::MemorySnapshot snapshot;
  while (reader->Read(&snapshot)) {
    const v1::PoolMemory& pool = snapshot.pool();
    EXPECT_EQ(pool.free_blocks() + pool.cached_blocks() + pool.charged_blocks(),
              pool.total_blocks());
    if (!wanted(snapshot)) continue;
    context.TryCancel();
    return snapshot;
  }
  ADD_FAILURE() << "no snapshot was as wanted; the last: " << snapshot.ShortDebugString();
  return snapshot;
}

bool IsIdle(const v1::MemorySnapshot& snapshot) {
  bool ephemeral = false;
  for (const v1::SessionMemory& session : snapshot.sessions()) ephemeral |= session.ephemeral();
  return snapshot.load().running() == 0 && snapshot.load().waiting() == 0 && !ephemeral;
}

void ExpectInvariants(Client& client) {
  v1::CheckInvariantsResponse invariants;
  const grpc::Status status = Call(client.admin, &v1::AdminService::Stub::CheckInvariants,
                                   v1::CheckInvariantsRequest(), invariants);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(invariants.ok()) << invariants.ShortDebugString();
}

void ExpectDetails(const grpc::Status& status) {
  google::rpc::Status full;
  ASSERT_TRUE(full.ParseFromString(status.error_details()));
  EXPECT_EQ(full.code(), status.error_code());
  EXPECT_EQ(full.message(), status.error_message());
  const auto info = Detail<google::rpc::ErrorInfo>(status);
  ASSERT_TRUE(info.has_value()) << status.error_message();
  EXPECT_EQ(info->domain(), "luna");
  EXPECT_EQ(info->reason(),
            absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code())));
  EXPECT_EQ(Detail<google::rpc::RetryInfo>(status).has_value(),
            status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
}

void ExpectError(const grpc::Status& status, grpc::StatusCode code) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  ExpectDetails(status);
}

std::string ViolatedField(const grpc::Status& status) {
  const auto bad = Detail<google::rpc::BadRequest>(status);
  return bad.has_value() && bad->field_violations_size() == 1 ? bad->field_violations(0).field()
                                                              : "";
}

}  // namespace luna::integration
