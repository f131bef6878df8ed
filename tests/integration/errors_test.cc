// Every row of the error table that can be reached, with its details; and what must not hurt
// anybody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = grpc::StatusCode;

class ErrorsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server::Options options = OptionsFor(kTinyModel);
    options.max_sessions = 4;
    server_ = new TestServer(options);
  }
  static void TearDownTestSuite() { delete server_; }
  static Client& client() { return server_->client(); }

  static grpc::Status Ask(const v1::GenerateRequest& request) {
    v1::GenerateResponse response;
    const grpc::Status unary = Unary(client(), request, response);
    Stream stream(client(), request);
    const grpc::Status streamed = stream.Finish();
    EXPECT_EQ(streamed.error_code(), unary.error_code());
    if (!unary.ok()) {
      EXPECT_TRUE(stream.events.empty());
      ExpectDetails(unary);
      EXPECT_EQ(streamed.error_details(), unary.error_details());
    }
    return unary;
  }
  static void Close(const std::string& id) {
    v1::CloseSessionRequest request;
    request.set_session_id(id);
    v1::CloseSessionResponse response;
    EXPECT_TRUE(
        Call(client().sessions, &v1::SessionService::Stub::CloseSession, request, response).ok());
  }

  static TestServer* server_;
};

TestServer* ErrorsTest::server_;

TEST_F(ErrorsTest, ABadParameterIsAFieldViolation) {
  v1::GenerateRequest request = TextRequest("a", 1);
  request.mutable_sampling()->set_top_p(1.5f);
  grpc::Status status = Ask(request);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("top_p"), HasSubstr("1.5"), HasSubstr("(0, 1]")));
  EXPECT_EQ(ViolatedField(status), "sampling.top_p");

  request = TextRequest("a", 1);
  request.set_n(65);
  status = Ask(request);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_EQ(ViolatedField(status), "n");
}

TEST_F(ErrorsTest, APromptOrAHistoryThatIsTooLongIsOutOfRangeWithBothNumbers) {
  v1::GenerateRequest request;
  request.mutable_token_ids()->mutable_ids()->Resize(200, 5);
  grpc::Status status = Ask(request);
  EXPECT_EQ(status.error_code(), Code::OUT_OF_RANGE);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("200"), HasSubstr("96")));

  request.set_session_id(CreateSession(client()));
  request.mutable_token_ids()->mutable_ids()->Resize(60, 5);
  request.mutable_stopping()->set_max_tokens(20);
  request.mutable_stopping()->set_ignore_eos(true);
  v1::GenerateResponse response;
  ASSERT_TRUE(Unary(client(), request, response).ok());
  status = Ask(request);
  EXPECT_EQ(status.error_code(), Code::OUT_OF_RANGE);
  EXPECT_THAT(status.error_message(), HasSubstr("96"));
  EXPECT_EQ(GetSession(client(), request.session_id()).turn(), 1u);
  EXPECT_EQ(GetSession(client(), request.session_id()).context_left(), 16u);
  Close(request.session_id());
}

TEST_F(ErrorsTest, WhatCanNeverFitTheQuotaIsAFailedPrecondition) {
  v1::PoolMemory pool;
  ASSERT_TRUE(
      Call(client().monitor, &v1::MonitorService::Stub::GetPool, v1::GetPoolRequest(), pool).ok());
  v1::CreateSessionRequest create;
  create.set_quota_bytes(pool.block_bytes());
  v1::GenerateRequest request = TextRequest("a", 4);
  request.set_session_id(CreateSession(client(), create));
  EXPECT_TRUE(Ask(request).ok());
  request.mutable_token_ids()->mutable_ids()->Resize(40, 5);
  const grpc::Status status = Ask(request);
  EXPECT_EQ(status.error_code(), Code::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("quota"));
  Close(request.session_id());
}

TEST_F(ErrorsTest, WhatCanNeverFitThePoolIsAFailedPrecondition) {
  server::Options options = OptionsFor(kTinyModel);
  options.kv_dtype = backend::KvDtype::kF32;
  options.kv_cache_bytes = 2 * 13824;  // two blocks of sixteen tokens
  TestServer small(options);
  v1::GenerateRequest request;
  request.mutable_token_ids()->mutable_ids()->Resize(40, 5);
  v1::GenerateResponse response;
  const grpc::Status status = Unary(small.client(), request, response);
  EXPECT_EQ(status.error_code(), Code::FAILED_PRECONDITION) << status.error_message();
  // The queue goes on.
  EXPECT_TRUE(Unary(small.client(), TextRequest("a", 8), response).ok());
}

TEST_F(ErrorsTest, TooManySessionsAreResourceExhaustedAndSayWhenToTryAgain) {
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(CreateSession(client()));
  v1::Session session;
  const grpc::Status status = Call(client().sessions, &v1::SessionService::Stub::CreateSession,
                                   v1::CreateSessionRequest(), session);
  ExpectError(status, Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("4"));
  const auto retry = Detail<google::rpc::RetryInfo>(status);
  ASSERT_TRUE(retry.has_value());
  EXPECT_GT(retry->retry_delay().seconds() * 1'000'000'000 + retry->retry_delay().nanos(), 0);
  for (const std::string& id : ids) Close(id);
}

TEST_F(ErrorsTest, AFullQueueIsResourceExhaustedAndSaysWhenToTryAgain) {
  server::Options options = OptionsFor(kSlowModel);
  options.queue_limit = 1;
  options.max_batch_tokens = 1;  // whoever decodes leaves nothing for the others
  TestServer server(options);
  std::vector<std::unique_ptr<Stream>> streams;
  grpc::Status status;
  do {
    streams.push_back(std::make_unique<Stream>(server.client(), LongRequest()));
    Stream& stream = *streams.back();
    // The first is running before the others come.
    const auto until =
        streams.size() == 1 ? v1::GenerateEvent::kDelta : v1::GenerateEvent::kAccepted;
    if (!stream.ReadUntil(until)) status = stream.Finish();
  } while (status.ok() && streams.size() < 8);
  ExpectError(status, Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("queue"));
  EXPECT_GT(streams.size(), 2u);
  for (const auto& stream : streams) stream->context.TryCancel();
}

TEST_F(ErrorsTest, AnUnknownSessionIsNotFoundEverywhere) {
  using Sessions = v1::SessionService::Stub;
  v1::GenerateRequest request = TextRequest("a", 1);
  request.set_session_id("0123456789abcdef0123456789abcdef");
  EXPECT_EQ(Ask(request).error_code(), Code::NOT_FOUND);
  const auto expect_not_found = [](const grpc::Status& status) {
    ExpectError(status, Code::NOT_FOUND);
    EXPECT_EQ(ViolatedField(status), "session_id");
  };
  v1::Session session;
  v1::GetSessionRequest get;
  get.set_session_id("nobody");
  expect_not_found(Call(client().sessions, &Sessions::GetSession, get, session));
  expect_not_found(
      Call(client().sessions, &Sessions::UpdateSession, v1::UpdateSessionRequest(), session));
  expect_not_found(
      Call(client().sessions, &Sessions::ResetSession, v1::ResetSessionRequest(), session));
  v1::CloseSessionResponse closed;
  expect_not_found(
      Call(client().sessions, &Sessions::CloseSession, v1::CloseSessionRequest(), closed));
  v1::GetSessionMemoryRequest memory;
  memory.set_session_id("s999999");
  v1::SessionMemory answer;
  expect_not_found(
      Call(client().monitor, &v1::MonitorService::Stub::GetSessionMemory, memory, answer));
}

TEST_F(ErrorsTest, AWrongTurnIsAborted) {
  v1::GenerateRequest request = TextRequest("a", 1);
  request.set_session_id(CreateSession(client()));
  request.set_expected_turn(1);
  const grpc::Status status = Ask(request);
  EXPECT_EQ(status.error_code(), Code::ABORTED);
  EXPECT_THAT(status.error_message(), HasSubstr("expected_turn"));
  request.set_expected_turn(0);
  v1::GenerateResponse response;
  EXPECT_TRUE(Unary(client(), request, response).ok());
  Close(request.session_id());
}

TEST_F(ErrorsTest, AMessageOverTheLimitIsRefusedCleanly) {
  v1::GenerateResponse response;
  const grpc::Status status = Unary(client(), TextRequest(std::string(5 << 20, 'a'), 1), response);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_TRUE(Unary(client(), TextRequest("a", 1), response).ok());
  // Below the message's limit, above the context's.
  EXPECT_EQ(Unary(client(), TextRequest(std::string(3 << 20, 'a'), 1), response).error_code(),
            Code::OUT_OF_RANGE);
  v1::TokenizeRequest request;
  request.set_text(std::string(1 << 20, 'a'));
  v1::TokenizeResponse tokens;
  const grpc::Status tokenized =
      Call(client().inference, &v1::InferenceService::Stub::Tokenize, request, tokens);
  EXPECT_EQ(tokenized.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_EQ(ViolatedField(tokenized), "text");
}

TEST_F(ErrorsTest, WhatIsNotOfferedSaysSo) {
  v1::EstimateCapacityResponse capacity;
  const grpc::Status status = Call(client().monitor, &v1::MonitorService::Stub::EstimateCapacity,
                                   v1::EstimateCapacityRequest(), capacity);
  EXPECT_EQ(status.error_code(), Code::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("EstimateCapacity"));
  ExpectDetails(status);
}

// A request with every field drawn from what clients have been known to send.
class HostileRequests {
 public:
  v1::GenerateRequest Next() {
    v1::GenerateRequest request = TextRequest("a", 4);
    v1::SamplingParams* sampling = request.mutable_sampling();
    if (Coin()) sampling->set_temperature(Float());
    if (Coin()) sampling->set_top_k(Whole());
    if (Coin()) sampling->set_top_p(Float());
    if (Coin()) sampling->set_min_p(Float());
    if (Coin()) sampling->set_repetition_penalty(Float());
    if (Coin()) sampling->set_presence_penalty(Float());
    if (Coin()) sampling->set_frequency_penalty(Float());
    if (Coin()) sampling->set_seed(random_());
    for (int i = random_() % 3; i > 0; --i) {
      v1::LogitBias* bias = sampling->add_logit_bias();
      bias->set_token_id(Whole());
      bias->set_bias(Float());
    }
    v1::StoppingParams* stopping = request.mutable_stopping();
    if (Coin()) stopping->set_max_tokens(Whole());
    if (Coin()) stopping->set_min_tokens(Whole());
    if (Coin()) stopping->add_stop_ids(Whole());
    if (Coin()) stopping->add_stop(std::string(random_() % 4, 'e'));
    if (Coin()) stopping->set_ignore_eos(true);
    if (Coin()) request.mutable_response_options()->set_logprobs(Whole());
    if (Coin()) request.set_priority(static_cast<int32_t>(Whole()));
    if (random_() % 8 == 0) request.set_n(Whole());
    if (random_() % 8 == 0) request.mutable_token_ids()->add_ids(Whole());
    return request;
  }

 private:
  bool Coin() { return random_() % 3 == 0; }
  float Float() {
    static constexpr float kValues[] = {0.0f,
                                        -0.0f,
                                        1.0f,
                                        0.5f,
                                        1e-30f,
                                        1e-45f,
                                        1e30f,
                                        -1.0f,
                                        2.0f,
                                        100.0f,
                                        -100.0f,
                                        0.9999999f,
                                        std::numeric_limits<float>::infinity(),
                                        -std::numeric_limits<float>::infinity(),
                                        std::numeric_limits<float>::quiet_NaN()};
    return kValues[random_() % std::size(kValues)];
  }
  uint32_t Whole() {
    static constexpr uint32_t kValues[] = {0,   1,   2,          20,         21,        50,
                                           319, 320, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    return kValues[random_() % std::size(kValues)];
  }

  std::mt19937 random_{20};
};

TEST_F(ErrorsTest, HostileParametersHurtNobody) {
  v1::GenerateRequest companion = TextRequest("Once", 80);
  companion.mutable_sampling()->set_seed(3);
  companion.mutable_stopping()->set_ignore_eos(true);
  v1::GenerateResponse alone;
  ASSERT_TRUE(Unary(client(), companion, alone).ok());

  HostileRequests hostile;
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 40; ++round) {
    Stream together(client(), companion);
    std::vector<std::unique_ptr<Stream>> others;
    for (int i = 0; i < 10; ++i) {
      others.push_back(std::make_unique<Stream>(client(), hostile.Next()));
    }
    for (const auto& other : others) {
      const grpc::Status status = other->Finish();
      (status.ok() ? accepted : refused) += 1;
      if (status.ok()) continue;
      EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT) << status.error_message();
      EXPECT_FALSE(ViolatedField(status).empty()) << status.error_message();
    }
    ASSERT_TRUE(together.Finish().ok());
    EXPECT_EQ(together.text, alone.text());
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(refused, 20);
  EXPECT_EQ(Health(client()), grpc::health::v1::HealthCheckResponse::SERVING);
  WaitFor(client(), IsIdle);
  ExpectInvariants(client());
}

}  // namespace
}  // namespace luna::integration
