// How generations end before their time, and how the server does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using ::testing::HasSubstr;
using Event = v1::GenerateEvent;
using Status = grpc::health::v1::HealthCheckResponse;

class LifecycleTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new TestServer(OptionsFor(kSlowModel)); }
  static void TearDownTestSuite() { delete server_; }
  static Client& client() { return server_->client(); }

  static bool Abort(const std::string& generation_id, bool keep_partial) {
    v1::AbortRequest request;
    request.set_generation_id(generation_id);
    request.set_keep_partial(keep_partial);
    v1::AbortResponse response;
    const grpc::Status status =
        Call(client().inference, &v1::InferenceService::Stub::Abort, request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.was_live();
  }
  static void ExpectAllBlocksBack() {
    const v1::MemorySnapshot idle = WaitFor(client(), IsIdle);
    uint64_t charged = 0;
    for (const v1::SessionMemory& session : idle.sessions()) charged += session.split_bytes();
    EXPECT_EQ(idle.pool().charged_blocks() * idle.pool().block_bytes(), charged);
  }

  static TestServer* server_;
};

TestServer* LifecycleTest::server_;

TEST_F(LifecycleTest, ACancelledStreamFreesItsBlocks) {
  Stream stream(client(), LongRequest());
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  WaitFor(client(), [](const auto& snapshot) { return snapshot.pool().charged_blocks() > 0; });
  stream.context.TryCancel();
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
  ExpectAllBlocksBack();
}

TEST_F(LifecycleTest, ACancelledTurnLeavesNothingBehind) {
  const std::string id = CreateSession(client());
  v1::GenerateRequest request = LongRequest();
  request.set_session_id(id);
  request.set_expected_turn(0);
  {
    Stream stream(client(), request);
    ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
    stream.context.TryCancel();
    stream.Finish();
  }
  WaitFor(client(), IsIdle);
  EXPECT_EQ(GetSession(client(), id).turn(), 0u);
  EXPECT_EQ(GetSession(client(), id).tokens(), 0u);
  // A retry with the same expected turn goes through.
  request.mutable_stopping()->set_max_tokens(2);
  v1::GenerateResponse response;
  EXPECT_TRUE(Unary(client(), request, response).ok());
  EXPECT_EQ(response.finished().turn(), 1u);
}

TEST_F(LifecycleTest, ACancelledUnaryCallFreesItsBlocks) {
  grpc::ClientContext context;
  v1::GenerateResponse response;
  auto call = std::async(std::launch::async, [&] {
    return client().inference->GenerateUnary(&context, LongRequest(), &response);
  });
  WaitFor(client(), [](const auto& snapshot) { return snapshot.load().running() > 0; });
  context.TryCancel();
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
  ExpectAllBlocksBack();
}

TEST_F(LifecycleTest, ADeadlineEndsAGeneration) {
  Stream stream(client(), LongRequest(), std::chrono::milliseconds(300));
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_LT(stream.token_ids.size(), 496u);
  ExpectAllBlocksBack();
}

TEST_F(LifecycleTest, AbortEndsAStreamAndIsIdempotent) {
  Stream stream(client(), LongRequest());
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  const std::string id = stream.accepted.generation_id();
  EXPECT_TRUE(Abort(id, false));
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.finished.reason(), v1::FINISH_REASON_CANCELLED);
  EXPECT_EQ(stream.finished.usage().completion_tokens(), stream.token_ids.size());
  EXPECT_FALSE(Abort(id, false));
  EXPECT_FALSE(Abort("no such id", false));
  ExpectAllBlocksBack();
}

TEST_F(LifecycleTest, AbortDiscardsATurnOrKeepsIt) {
  for (const bool keep : {false, true}) {
    const std::string id = CreateSession(client());
    v1::GenerateRequest request = LongRequest();
    request.set_session_id(id);
    Stream stream(client(), request);
    ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
    EXPECT_TRUE(Abort(stream.accepted.generation_id(), keep));
    ASSERT_TRUE(stream.Finish().ok());
    EXPECT_EQ(stream.finished.turn(), keep ? 1u : 0u);
    const v1::Session session = GetSession(client(), id);
    EXPECT_EQ(session.turn(), keep ? 1u : 0u);
    EXPECT_EQ(session.last_text(), keep ? stream.text : "");
    EXPECT_EQ(session.tokens(), keep ? 16 + stream.token_ids.size() : 0u);
  }
}

TEST_F(LifecycleTest, AReaderThatDoesNotReadHoldsUpNobody) {
  Stream frozen(client(), LongRequest());
  ASSERT_TRUE(frozen.ReadUntil(Event::kAccepted));
  v1::GenerateResponse response;
  v1::GenerateRequest request = LongRequest();
  request.mutable_stopping()->set_max_tokens(8);
  EXPECT_TRUE(Unary(client(), request, response).ok());
  EXPECT_EQ(response.token_ids_size(), 8);
  // Its generation ends too, unread.
  WaitFor(client(), IsIdle);
  ASSERT_TRUE(frozen.Finish().ok());
  EXPECT_EQ(frozen.token_ids.size(), 496u);
}

TEST_F(LifecycleTest, OneLiveGenerationPerSession) {
  v1::GenerateRequest request = LongRequest();
  request.set_session_id(CreateSession(client()));
  Stream stream(client(), request);
  ASSERT_TRUE(stream.ReadUntil(Event::kAccepted));
  v1::GenerateResponse response;
  ExpectError(Unary(client(), request, response), grpc::StatusCode::ABORTED);
  v1::ResetSessionRequest reset;
  reset.set_session_id(request.session_id());
  v1::Session session;
  ExpectError(Call(client().sessions, &v1::SessionService::Stub::ResetSession, reset, session),
              grpc::StatusCode::ABORTED);
  stream.context.TryCancel();
}

TEST_F(LifecycleTest, ALiveRequestIdIsTaken) {
  v1::GenerateRequest request = LongRequest();
  request.set_request_id("homework");
  Stream stream(client(), request);
  ASSERT_TRUE(stream.ReadUntil(Event::kAccepted));
  v1::GenerateResponse response;
  const grpc::Status status = Unary(client(), request, response);
  ExpectError(status, grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ViolatedField(status), "request_id");
  stream.context.TryCancel();
  stream.Finish();
  WaitFor(client(), IsIdle);
  request.mutable_stopping()->set_max_tokens(1);
  EXPECT_TRUE(Unary(client(), request, response).ok());
}

TEST_F(LifecycleTest, OfTwoAtOnceWithOneRequestIdOneIsAccepted) {
  v1::GenerateRequest request = LongRequest();
  request.set_request_id("twins");
  for (int round = 0; round < 5; ++round) {
    Stream first(client(), request);
    Stream second(client(), request);
    int accepted = 0;
    for (Stream* stream : {&first, &second}) {
      if (stream->ReadUntil(Event::kAccepted)) {
        ++accepted;
        stream->context.TryCancel();
      } else {
        ExpectError(stream->Finish(), grpc::StatusCode::ALREADY_EXISTS);
      }
    }
    EXPECT_EQ(accepted, 1);
    WaitFor(client(), IsIdle);
  }
}

TEST_F(LifecycleTest, ClosingASessionEndsItsGeneration) {
  v1::GenerateRequest request = LongRequest();
  request.set_session_id(CreateSession(client()));
  Stream stream(client(), request);
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  v1::CloseSessionRequest close;
  close.set_session_id(request.session_id());
  v1::CloseSessionResponse closed;
  EXPECT_TRUE(Call(client().sessions, &v1::SessionService::Stub::CloseSession, close, closed).ok());
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.finished.reason(), v1::FINISH_REASON_CANCELLED);
  ExpectAllBlocksBack();
}

// Nobody but the server knows the id of an answer that is joined; its session does.
TEST_F(LifecycleTest, AJoinedAnswerThatIsEndedIsAnAnswer) {
  v1::GenerateRequest request = LongRequest();
  request.set_session_id(CreateSession(client()));
  v1::GenerateResponse response;
  auto call = std::async(std::launch::async, [&] { return Unary(client(), request, response); });
  WaitFor(client(), [](const auto& snapshot) {
    return snapshot.sessions_size() > 0 && snapshot.load().running() > 0 &&
           snapshot.load().total_tokens() > 0;
  });
  v1::CloseSessionRequest close;
  close.set_session_id(request.session_id());
  v1::CloseSessionResponse closed;
  EXPECT_TRUE(Call(client().sessions, &v1::SessionService::Stub::CloseSession, close, closed).ok());
  const grpc::Status status = call.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.finished().reason(), v1::FINISH_REASON_CANCELLED);
  EXPECT_EQ(response.finished().usage().completion_tokens(),
            static_cast<uint32_t>(response.token_ids_size()));
  EXPECT_EQ(response.generation_id().size(), 32u);
  ExpectAllBlocksBack();
}

TEST(WaitingTest, AnAbortThatKeepsTheTurnKeepsItsPrompt) {
  server::Options options = OptionsFor(kSlowModel);
  options.max_batch_tokens = 1;  // whoever decodes leaves nothing for the others
  TestServer server(options);
  Client& client = server.client();
  Stream running(client, LongRequest());
  ASSERT_TRUE(running.ReadUntil(Event::kDelta));
  v1::GenerateRequest request = LongRequest();
  request.set_session_id(CreateSession(client));
  Stream waiting(client, request);
  ASSERT_TRUE(waiting.ReadUntil(Event::kAccepted));
  EXPECT_GE(waiting.accepted.queue_position(), 1u);
  v1::AbortRequest abort;
  abort.set_generation_id(waiting.accepted.generation_id());
  abort.set_keep_partial(true);
  v1::AbortResponse aborted;
  ASSERT_TRUE(Call(client.inference, &v1::InferenceService::Stub::Abort, abort, aborted).ok());
  EXPECT_TRUE(aborted.was_live());
  ASSERT_TRUE(waiting.Finish().ok());
  EXPECT_EQ(waiting.finished.reason(), v1::FINISH_REASON_CANCELLED);
  EXPECT_EQ(waiting.finished.turn(), 1u);
  EXPECT_TRUE(waiting.token_ids.empty());
  const v1::Session session = GetSession(client, request.session_id());
  EXPECT_EQ(session.turn(), 1u);
  EXPECT_EQ(session.tokens(), 16u);
  EXPECT_EQ(session.last_text(), "");
  running.context.TryCancel();
}

TEST(ShutdownTest, ADrainLetsLiveOnesFinishAndRefusesNewOnes) {
  TestServer server(OptionsFor(kSlowModel));
  Client& client = server.client();
  EXPECT_EQ(Health(client), Status::SERVING);
  v1::GenerateRequest request = LongRequest();
  request.mutable_stopping()->set_max_tokens(100);
  Stream live(client, request);
  ASSERT_TRUE(live.ReadUntil(Event::kDelta));

  v1::DrainResponse drained;
  ASSERT_TRUE(Call(client.admin, &v1::AdminService::Stub::Drain, v1::DrainRequest(), drained).ok());
  EXPECT_EQ(drained.live_generations(), 1u);
  EXPECT_EQ(Health(client), Status::NOT_SERVING);
  EXPECT_EQ(Health(client, "luna.v1.InferenceService"), Status::NOT_SERVING);
  v1::GenerateResponse response;
  ExpectError(Unary(client, request, response), grpc::StatusCode::UNAVAILABLE);
  ExpectError(Stream(client, request).Finish(), grpc::StatusCode::UNAVAILABLE);
  v1::Session session;
  ExpectError(Call(client.sessions, &v1::SessionService::Stub::CreateSession,
                   v1::CreateSessionRequest(), session),
              grpc::StatusCode::UNAVAILABLE);

  ASSERT_TRUE(live.Finish().ok());
  EXPECT_EQ(live.finished.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(live.token_ids.size(), 100u);
  EXPECT_TRUE(server.rpc().WaitUntilDrained(absl::InfiniteFuture()));
}

TEST(ShutdownTest, WhatStillRunsWhenItStopsEndsWithAnError) {
  auto server = std::make_unique<TestServer>(OptionsFor(kSlowModel));
  Client client(server->AddressAt("127.0.0.1"));
  Stream live(client, LongRequest());
  ASSERT_TRUE(live.ReadUntil(Event::kDelta));
  grpc::ClientContext context;
  auto watch = client.monitor->WatchMemory(&context, v1::WatchMemoryRequest());
  v1::MemorySnapshot snapshot;
  ASSERT_TRUE(watch->Read(&snapshot));
  server.reset();
  EXPECT_TRUE(live.Finish().ok());
  ASSERT_TRUE(live.error.has_value());
  EXPECT_EQ(live.error->code(), grpc::StatusCode::UNAVAILABLE);
  while (watch->Read(&snapshot)) {
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// Every kind of call, from several connections, until the server is gone.
void Fire(const std::string& address, std::atomic<int>& answered) {
  Client client(address);
  grpc::Status status;
  while (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    v1::GenerateResponse response;
    status = Unary(client, TextRequest("a", 3), response);
    v1::TokenizeResponse tokens;
    v1::TokenizeRequest tokenize;
    tokenize.set_text("a b c");
    Call(client.inference, &v1::InferenceService::Stub::Tokenize, tokenize, tokens);
    v1::PoolMemory pool;
    Call(client.monitor, &v1::MonitorService::Stub::GetPool, v1::GetPoolRequest(), pool);
    Stream stream(client, TextRequest("b", 3));
    stream.Finish();
    grpc::ClientContext context;
    auto watch = client.monitor->WatchMemory(&context, v1::WatchMemoryRequest());
    v1::MemorySnapshot snapshot;
    watch->Read(&snapshot);
    context.TryCancel();
    watch->Finish();
    ++answered;
  }
}

TEST(ShutdownTest, StoppingUnderFireIsOrderly) {
  for (int round = 0; round < 10; ++round) {
    auto server = std::make_unique<TestServer>(OptionsFor(kTinyModel));
    const std::string address = server->AddressAt("127.0.0.1");
    std::atomic<int> answered = 0;
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] { Fire(address, answered); });
    }
    // At different places of what they do.
    WaitFor(server->client(), [round](const auto& snapshot) {
      return snapshot.load().finished() > static_cast<uint64_t>(round * 3);
    });
    server.reset();
    for (std::thread& client : clients) client.join();
    EXPECT_GT(answered, 0);
  }
}

TEST(ShutdownTest, WhileTheModelLoadsCallsAreUnavailable) {
  const std::unique_ptr<TestServer> server = TestServer::Loading();
  Client& client = server->client();
  EXPECT_EQ(Health(client), Status::NOT_SERVING);
  EXPECT_EQ(Health(client, "luna.v1.SessionService"), Status::NOT_SERVING);
  v1::GenerateResponse response;
  grpc::Status status = Unary(client, TextRequest("a", 1), response);
  ExpectError(status, grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("loading"));
  Stream stream(client, TextRequest("a", 1));
  ExpectError(stream.Finish(), grpc::StatusCode::UNAVAILABLE);
  v1::GetModelResponse model;
  EXPECT_EQ(
      Call(client.inference, &v1::InferenceService::Stub::GetModel, v1::GetModelRequest(), model)
          .error_code(),
      grpc::StatusCode::UNAVAILABLE);
  grpc::ClientContext context;
  auto watch = client.monitor->WatchMemory(&context, v1::WatchMemoryRequest());
  ExpectError(watch->Finish(), grpc::StatusCode::UNAVAILABLE);
}

TEST(ShutdownTest, ABusyPortIsAnErrorThatNamesIt) {
  const std::unique_ptr<TestServer> server = TestServer::Loading();
  const std::string address = server->AddressAt("127.0.0.1");
  const auto second = rpc::RpcServer::Start(address);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
}

}  // namespace
}  // namespace luna::integration
