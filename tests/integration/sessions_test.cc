// Sessions: what callers set and see of them, and what others see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "server/listen_address.h"
#include "tests/fakes/temp_dir.h"
#include "tests/integration/saving.h"
#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

class SessionsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new TestServer(OptionsFor(kStoryModel)); }
  static void TearDownTestSuite() { delete server_; }
  static Client& client() { return server_->client(); }

  static v1::GenerateResponse Speak(const std::string& id, const std::string& text,
                                    int max_tokens) {
    v1::GenerateRequest request = TextRequest(text, max_tokens);
    request.set_session_id(id);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stopping()->set_ignore_eos(true);
    v1::GenerateResponse response;
    const grpc::Status status = Unary(client(), request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  static v1::Session Reset(const std::string& id, uint32_t to_turn) {
    v1::ResetSessionRequest request;
    request.set_session_id(id);
    request.set_to_turn(to_turn);
    v1::Session session;
    EXPECT_TRUE(
        Call(client().sessions, &v1::SessionService::Stub::ResetSession, request, session).ok());
    return session;
  }
  static bool Lists(Client& who, const std::string& id) {
    v1::ListSessionsResponse response;
    EXPECT_TRUE(Call(who.sessions, &v1::SessionService::Stub::ListSessions,
                     v1::ListSessionsRequest(), response)
                    .ok());
    for (const v1::Session& session : response.sessions()) {
      if (session.id() == id) return true;
    }
    return false;
  }

  static TestServer* server_;
};

TestServer* SessionsTest::server_;

TEST_F(SessionsTest, ASessionIsCreatedShownUpdatedAndClosed) {
  v1::CreateSessionRequest create;
  create.set_label("학생 1");
  create.mutable_default_sampling()->set_temperature(0);
  create.mutable_default_sampling()->set_top_k(0);
  create.set_context_policy(v1::CONTEXT_POLICY_DROP_OLDEST);
  const std::string id = CreateSession(client(), create);
  EXPECT_EQ(id.size(), 32u);
  v1::Session session = GetSession(client(), id);
  EXPECT_EQ(session.label(), "학생 1");
  EXPECT_TRUE(session.default_sampling().has_temperature());
  EXPECT_TRUE(session.default_sampling().has_top_k());
  EXPECT_FALSE(session.default_sampling().has_top_p());
  EXPECT_EQ(session.context_policy(), v1::CONTEXT_POLICY_DROP_OLDEST);
  EXPECT_EQ(session.context_left(), 512u);
  EXPECT_EQ(session.state(), v1::SESSION_STATE_IDLE);
  EXPECT_GT(session.quota_bytes(), 0u);
  EXPECT_GT(session.created().seconds(), 0);
  EXPECT_TRUE(Lists(client(), id));

  v1::UpdateSessionRequest update;
  update.set_session_id(id);
  update.set_label("학생 2");
  update.mutable_default_sampling()->set_seed(5);
  ASSERT_TRUE(
      Call(client().sessions, &v1::SessionService::Stub::UpdateSession, update, session).ok());
  EXPECT_EQ(session.label(), "학생 2");
  EXPECT_FALSE(session.default_sampling().has_temperature());
  EXPECT_EQ(session.default_sampling().seed(), 5u);
  EXPECT_EQ(session.context_policy(), v1::CONTEXT_POLICY_DROP_OLDEST);

  v1::CloseSessionRequest close;
  close.set_session_id(id);
  v1::CloseSessionResponse closed;
  EXPECT_TRUE(Call(client().sessions, &v1::SessionService::Stub::CloseSession, close, closed).ok());
  EXPECT_FALSE(Lists(client(), id));
  EXPECT_EQ(
      Call(client().sessions, &v1::SessionService::Stub::CloseSession, close, closed).error_code(),
      grpc::StatusCode::NOT_FOUND);
}

TEST_F(SessionsTest, ASecondTurnComputesOnlyWhatIsNew) {
  const std::string id = CreateSession(client());
  const v1::GenerateResponse first = Speak(id, "Once upon a time", 40);
  const v1::GenerateResponse second = Speak(id, " The end", 10);
  const uint32_t before = first.finished().usage().prompt_tokens() + 40;
  EXPECT_EQ(second.finished().usage().prompt_tokens(),
            before + Tokenize(client(), " The end").size());
  EXPECT_EQ(second.finished().usage().cached_tokens(), before - 1);
  EXPECT_EQ(second.finished().turn(), 2u);
  const v1::Session session = GetSession(client(), id);
  EXPECT_EQ(session.turn(), 2u);
  EXPECT_EQ(session.tokens(), second.finished().usage().prompt_tokens() + 10);
  EXPECT_EQ(session.last_text(), second.text());

  // The same tokens in one go give the same words.
  v1::GenerateRequest whole;
  whole.mutable_sampling()->set_temperature(0);
  whole.mutable_stopping()->set_ignore_eos(true);
  whole.mutable_stopping()->set_max_tokens(10);
  for (const uint32_t token : Tokenize(client(), "Once upon a time")) {
    whole.mutable_token_ids()->add_ids(token);
  }
  for (const uint32_t token : first.token_ids()) whole.mutable_token_ids()->add_ids(token);
  for (const uint32_t token : Tokenize(client(), " The end")) {
    whole.mutable_token_ids()->add_ids(token);
  }
  v1::GenerateResponse cold;
  ASSERT_TRUE(Unary(client(), whole, cold).ok());
  EXPECT_EQ(cold.text(), second.text());
}

TEST_F(SessionsTest, AResetGoesBackToATurn) {
  const std::string id = CreateSession(client());
  Speak(id, "Once upon a time", 20);
  const uint32_t tokens = GetSession(client(), id).tokens();
  const v1::GenerateResponse second = Speak(id, " and then", 20);
  v1::Session session = Reset(id, 1);
  EXPECT_EQ(session.turn(), 1u);
  EXPECT_EQ(session.tokens(), tokens);
  EXPECT_EQ(Speak(id, " and then", 20).text(), second.text());
  session = Reset(id, 0);
  EXPECT_EQ(session.turn(), 0u);
  EXPECT_EQ(session.tokens(), 0u);
  EXPECT_EQ(session.id(), id);
}

TEST_F(SessionsTest, DefaultsHoldUnlessARequestSaysOtherwise) {
  v1::CreateSessionRequest create;
  create.mutable_default_sampling()->set_temperature(0.5f);
  create.mutable_default_sampling()->set_seed(42);
  v1::GenerateRequest request = TextRequest("Once", 1);
  request.set_session_id(CreateSession(client(), create));
  request.mutable_sampling()->set_temperature(0.25f);
  Stream stream(client(), request);
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.accepted.seed(), 42u);
  EXPECT_EQ(stream.accepted.sampling().temperature(), 0.25f);
}

// The request with every float of its default_sampling in turn at `value`; `field` is its name.
template <typename Request>
void ForEachFloat(float value,
                  const std::function<void(const Request&, const std::string& field)>& tell) {
  const google::protobuf::Descriptor* params = v1::SamplingParams::descriptor();
  for (int i = 0; i < params->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = params->field(i);
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_FLOAT) continue;
    Request request;
    v1::SamplingParams* sampling = request.mutable_default_sampling();
    sampling->GetReflection()->SetFloat(sampling, field, value);
    tell(request, "default_sampling." + field->name());
  }
  Request request;
  request.mutable_default_sampling()->add_logit_bias()->set_bias(value);
  tell(request, "default_sampling.logit_bias");
}

TEST_F(SessionsTest, NoDefaultIsNanOrInfinite) {
  using Sessions = v1::SessionService::Stub;
  v1::CreateSessionRequest create;
  create.mutable_default_sampling()->set_temperature(0.5f);
  const std::string id = CreateSession(client(), create);
  v1::Session session;
  int fields = 0;
  const auto expect_refused = [&](const grpc::Status& status, const std::string& field) {
    ExpectError(status, grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(ViolatedField(status), ::testing::StartsWith(field));
    ++fields;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {std::nanf(""), kInfinity, -kInfinity}) {
    ForEachFloat<v1::CreateSessionRequest>(value, [&](const auto& request, const auto& field) {
      expect_refused(Call(client().sessions, &Sessions::CreateSession, request, session), field);
    });
    ForEachFloat<v1::UpdateSessionRequest>(value, [&](auto request, const auto& field) {
      request.set_session_id(id);
      expect_refused(Call(client().sessions, &Sessions::UpdateSession, request, session), field);
    });
  }
  EXPECT_EQ(fields, 3 * 2 * 7);
  EXPECT_EQ(GetSession(client(), id).default_sampling().temperature(), 0.5f);
}

TEST_F(SessionsTest, TheOldestTurnsLeaveWhereTheSessionSaysSo) {
  v1::CreateSessionRequest create;
  create.set_context_policy(v1::CONTEXT_POLICY_DROP_OLDEST);
  const std::string id = CreateSession(client(), create);
  for (int i = 0; i < 8; ++i) Speak(id, "Once upon a time", 100);
  const v1::Session session = GetSession(client(), id);
  EXPECT_EQ(session.turn(), 8u);
  EXPECT_GT(session.dropped_turns(), 0u);
  EXPECT_LE(session.tokens(), 512u);
}

// A peer that is not 127.0.0.1: this machine under its own address.
class RemoteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> hosts = server::ReachableHosts();
    if (hosts.empty()) GTEST_SKIP() << "this machine has no address but loopback";
    server::Options options = OptionsFor(kTinyModel);
    options.listen.host = "0.0.0.0";
    options.allow_remote = true;
    options.state_dir = directory_.path() + "/state";
    server_ = std::make_unique<TestServer>(options);
    remote_ = std::make_unique<Client>(server_->AddressAt(hosts.front()));
    if (!remote_->channel->WaitForConnected(std::chrono::system_clock::now() +
                                            std::chrono::seconds(10))) {
      GTEST_SKIP() << "this machine cannot reach itself at " << hosts.front();
    }
  }

  const TempDir directory_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<Client> remote_;
};

TEST_F(RemoteTest, ACallerListsItsOwnSessionsAndSeesHandlesOfOthers) {
  v1::CreateSessionRequest create;
  create.set_label("mine");
  const std::string mine = CreateSession(server_->client(), create);
  create.set_label("theirs");
  const std::string theirs = CreateSession(*remote_, create);
  v1::ListSessionsResponse list;
  ASSERT_TRUE(Call(remote_->sessions, &v1::SessionService::Stub::ListSessions,
                   v1::ListSessionsRequest(), list)
                  .ok());
  ASSERT_EQ(list.sessions_size(), 1);
  EXPECT_EQ(list.sessions(0).id(), theirs);

  std::string handle;
  WaitFor(*remote_, [&](const v1::MemorySnapshot& snapshot) {
    for (const v1::SessionMemory& session : snapshot.sessions()) {
      EXPECT_EQ(session.own(), session.label() == "theirs");
      if (session.own()) {
        EXPECT_EQ(session.session_id(), theirs);
      } else {
        handle = session.session_id();
      }
    }
    EXPECT_EQ(snapshot.ShortDebugString().find(mine), std::string::npos);
    return snapshot.sessions_size() == 2;
  });
  EXPECT_THAT(handle, ::testing::MatchesRegex("s[0-9]+"));

  // A handle shows memory and nothing else; whoever has the id may use the session.
  v1::GetSessionMemoryRequest request;
  request.set_session_id(handle);
  v1::SessionMemory memory;
  ASSERT_TRUE(
      Call(remote_->monitor, &v1::MonitorService::Stub::GetSessionMemory, request, memory).ok());
  EXPECT_EQ(memory.label(), "mine");
  v1::GetSessionRequest get;
  get.set_session_id(handle);
  v1::Session session;
  EXPECT_EQ(
      Call(remote_->sessions, &v1::SessionService::Stub::GetSession, get, session).error_code(),
      grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(GetSession(*remote_, mine).label(), "mine");
}

TEST_F(RemoteTest, AdminAnswersOnLoopbackOnly) {
  using Admin = v1::AdminService::Stub;
  const auto expect_denied = [](const grpc::Status& status) {
    ExpectError(status, grpc::StatusCode::PERMISSION_DENIED);
  };
  v1::DrainResponse drained;
  expect_denied(Call(remote_->admin, &Admin::Drain, v1::DrainRequest(), drained));
  v1::CheckInvariantsResponse invariants;
  expect_denied(
      Call(remote_->admin, &Admin::CheckInvariants, v1::CheckInvariantsRequest(), invariants));
  v1::SetQuotaResponse quota;
  expect_denied(Call(remote_->admin, &Admin::SetQuota, v1::SetQuotaRequest(), quota));
  v1::EvictSessionResponse evicted;
  expect_denied(Call(remote_->admin, &Admin::EvictSession, v1::EvictSessionRequest(), evicted));
  EXPECT_EQ(Health(*remote_), grpc::health::v1::HealthCheckResponse::SERVING);
}

TEST_F(RemoteTest, NamesOfSavedSessionsAreACallersOwn) {
  v1::CreateSessionRequest create;
  create.set_label("mine");
  const std::string mine = CreateSession(server_->client(), create);
  create.set_label("theirs");
  const std::string theirs = CreateSession(*remote_, create);
  ASSERT_TRUE(SaveAs(server_->client(), mine, "lesson").ok());
  v1::Session session;
  const grpc::Status unknown = RestoreFrom(*remote_, "lesson", session);
  ExpectError(unknown, grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(unknown.error_message(), "there is no saved session 'lesson'");
  ASSERT_TRUE(SaveAs(*remote_, theirs, "lesson").ok());
  for (const auto& [client, id] :
       {std::pair(&server_->client(), mine), std::pair(remote_.get(), theirs)}) {
    v1::CloseSessionRequest close;
    close.set_session_id(id);
    v1::CloseSessionResponse closed;
    ASSERT_TRUE(
        Call(client->sessions, &v1::SessionService::Stub::CloseSession, close, closed).ok());
    ASSERT_TRUE(RestoreFrom(*client, "lesson", session).ok());
    EXPECT_EQ(session.id(), id);
  }
}

TEST_F(RemoteTest, RequestIdsAreACallersOwn) {
  v1::GenerateRequest request = TextRequest("a", 90);
  request.set_request_id("1");
  Stream here(server_->client(), request);
  Stream there(*remote_, request);
  EXPECT_TRUE(here.Finish().ok());
  EXPECT_TRUE(there.Finish().ok());
}

}  // namespace
}  // namespace luna::integration
