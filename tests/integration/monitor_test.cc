// What operators see: memory, load, health, reflection.
#include <gmock/gmock.h>
#include <google/protobuf/util/time_util.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using google::protobuf::util::TimeUtil;
using ::testing::HasSubstr;
using Event = v1::GenerateEvent;

class MonitorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new TestServer(OptionsFor(kSlowModel)); }
  static void TearDownTestSuite() { delete server_; }
  static Client& client() { return server_->client(); }

  static TestServer* server_;
};

TestServer* MonitorTest::server_;

TEST_F(MonitorTest, ASessionsMemoryIsWatchedWhileItSpeaks) {
  v1::GenerateRequest request = LongRequest();
  request.set_session_id(CreateSession(client()));
  Stream stream(client(), request);
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  const auto find = [&](const v1::MemorySnapshot& snapshot) {
    for (const v1::SessionMemory& session : snapshot.sessions()) {
      if (session.session_id() == request.session_id()) return session;
    }
    return v1::SessionMemory();
  };
  const v1::MemorySnapshot snapshot = WaitFor(client(), [&](const auto& now) {
    return find(now).tokens() > 40 && find(now).state() == v1::SESSION_STATE_DECODE;
  });
  const v1::SessionMemory memory = find(snapshot);
  EXPECT_TRUE(memory.own());
  EXPECT_FALSE(memory.ephemeral());
  // 8 layers and heads of 64, a byte and their share of a scale each, for keys and for values.
  constexpr uint64_t kTokenBytes = 8 * 8 * 2 * (64 + sizeof(float));
  EXPECT_EQ(snapshot.pool().bytes_per_token(), kTokenBytes);
  EXPECT_EQ(snapshot.pool().block_bytes(), 16 * kTokenBytes);
  EXPECT_EQ(memory.charged_bytes(), memory.used_bytes() + memory.slack_bytes());
  // The token that was sampled last has no keys and values yet.
  EXPECT_EQ(memory.used_bytes(), (memory.tokens() - 1) * kTokenBytes);
  EXPECT_EQ(memory.private_blocks(), (memory.tokens() - 1 + 15) / 16);
  EXPECT_GE(memory.peak_bytes(), memory.charged_bytes());
  EXPECT_EQ(snapshot.load().running(), 1u);
  EXPECT_GT(snapshot.load().tokens_per_s(), 0.0);

  v1::GetSessionMemoryRequest get;
  get.set_session_id(request.session_id());
  v1::SessionMemory alone;
  ASSERT_TRUE(Call(client().monitor, &v1::MonitorService::Stub::GetSessionMemory, get, alone).ok());
  EXPECT_GE(alone.tokens(), memory.tokens());
  stream.context.TryCancel();
  stream.Finish();
  WaitFor(client(), IsIdle);
}

TEST_F(MonitorTest, PoolAndLoadOfAnIdleServerBalance) {
  WaitFor(client(), IsIdle);
  v1::PoolMemory pool;
  ASSERT_TRUE(
      Call(client().monitor, &v1::MonitorService::Stub::GetPool, v1::GetPoolRequest(), pool).ok());
  EXPECT_EQ(pool.free_blocks() + pool.cached_blocks() + pool.charged_blocks(), pool.total_blocks());
  EXPECT_EQ(pool.block_tokens(), 16u);
  EXPECT_GT(pool.weights_bytes(), 27'000'000u);
  v1::Load load;
  ASSERT_TRUE(
      Call(client().monitor, &v1::MonitorService::Stub::GetLoad, v1::GetLoadRequest(), load).ok());
  EXPECT_EQ(load.running(), 0u);
  EXPECT_EQ(load.waiting(), 0u);
  EXPECT_EQ(load.max_sessions(), 64u);
  EXPECT_EQ(load.queue_limit(), 256u);
  EXPECT_FALSE(load.draining());
  v1::CheckInvariantsResponse invariants;
  ASSERT_TRUE(Call(client().admin, &v1::AdminService::Stub::CheckInvariants,
                   v1::CheckInvariantsRequest(), invariants)
                  .ok());
  EXPECT_TRUE(invariants.ok()) << invariants.ShortDebugString();
  EXPECT_GT(invariants.tick(), 0u);
}

TEST_F(MonitorTest, ManyWatchersEachGetTheirOwnStream) {
  constexpr int kWatchers = 40;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::MemorySnapshot>>> readers;
  v1::WatchMemoryRequest request;
  *request.mutable_interval() = TimeUtil::MillisecondsToDuration(50);
  for (int i = 0; i < kWatchers; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(client().monitor->WatchMemory(contexts.back().get(), request));
  }
  for (int i = 0; i < kWatchers; ++i) {
    v1::MemorySnapshot snapshot;
    uint64_t tick = 0;
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(readers[i]->Read(&snapshot));
      EXPECT_GT(snapshot.pool().tick(), tick);
      tick = snapshot.pool().tick();
    }
    contexts[i]->TryCancel();
  }
}

TEST_F(MonitorTest, AnIntervalHasLimits) {
  for (const int64_t milliseconds : {int64_t{49}, int64_t{0}, int64_t{-1}, int64_t{90'000'000}}) {
    grpc::ClientContext context;
    v1::WatchMemoryRequest request;
    *request.mutable_interval() = TimeUtil::MillisecondsToDuration(milliseconds);
    auto reader = client().monitor->WatchMemory(&context, request);
    v1::MemorySnapshot snapshot;
    EXPECT_FALSE(reader->Read(&snapshot));
    const grpc::Status status = reader->Finish();
    ExpectError(status, grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(ViolatedField(status), "interval");
  }
}

TEST_F(MonitorTest, HealthKnowsEveryService) {
  for (const char* service : {"", "luna.v1.InferenceService", "luna.v1.SessionService",
                              "luna.v1.MonitorService", "luna.v1.AdminService"}) {
    EXPECT_EQ(Health(client(), service), grpc::health::v1::HealthCheckResponse::SERVING) << service;
  }
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("luna.v1.NoSuchService");
  grpc::health::v1::HealthCheckResponse response;
  EXPECT_EQ(
      Call(client().health, &grpc::health::v1::Health::Stub::Check, request, response).error_code(),
      grpc::StatusCode::NOT_FOUND);
}

// Debian ships no stubs for reflection; the two messages are small enough to write and to look
// into.
TEST_F(MonitorTest, ReflectionListsTheServices) {
  grpc::GenericStub stub(client().channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(wait());
  const grpc::Slice list_services("\x3a\x01*");  // field 7, "*"
  call->Write(grpc::ByteBuffer(&list_services, 1), nullptr);
  ASSERT_TRUE(wait());
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  ASSERT_TRUE(wait());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(answer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  EXPECT_THAT(bytes, HasSubstr("luna.v1.InferenceService"));
  EXPECT_THAT(bytes, HasSubstr("luna.v1.AdminService"));
  EXPECT_THAT(bytes, HasSubstr("grpc.health.v1.Health"));
  call->WritesDone(nullptr);
  wait();
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace luna::integration
