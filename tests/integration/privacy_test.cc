// What people say to the model is seen by nobody else: not by who watches memory, not in the log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <future>
#include <string>
#include <vector>

#include "tests/fakes/temp_dir.h"
#include "tests/integration/chat_model.h"
#include "tests/integration/process.h"
#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Sessions = v1::SessionService::Stub;
using Monitor = v1::MonitorService::Stub;

constexpr char kSecret[] = "private words";
constexpr char kSystemSecret[] = "hidden rules";

void Add(v1::GenerateRequest& request, v1::Role role, const std::string& content) {
  v1::Message* message = request.mutable_messages()->add_messages();
  message->set_role(role);
  message->set_content(content);
}

// A session that was told both secrets, and its answer.
struct Told {
  std::string session_id;
  std::string answer;
};

Told Tell(Client& client) {
  v1::CreateSessionRequest create;
  create.set_system(kSystemSecret);
  v1::GenerateRequest request = TextRequest(kSecret, 24);
  request.set_session_id(CreateSession(client, create));
  request.mutable_sampling()->set_seed(4);
  request.mutable_stopping()->set_ignore_eos(true);
  v1::GenerateResponse response;
  EXPECT_TRUE(Unary(client, request, response).ok());
  EXPECT_GE(response.text().size(), 16u);
  EXPECT_EQ(GetSession(client, request.session_id()).system(), kSystemSecret);
  return {request.session_id(), response.text()};
}

void ExpectNoSecret(const std::string& text, const Told& told) {
  EXPECT_THAT(text, Not(HasSubstr(kSecret)));
  EXPECT_THAT(text, Not(HasSubstr(kSystemSecret)));
  EXPECT_THAT(text, Not(HasSubstr(told.answer)));
}

TEST(PrivacyTest, MonitorMessagesCarryNoText) {
  const TempDir directory;
  WriteChatModel(directory.path());
  TestServer server(OptionsFor(directory.path()));
  Client& client = server.client();
  const Told told = Tell(client);
  const v1::MemorySnapshot snapshot = WaitFor(client, IsIdle);
  EXPECT_EQ(snapshot.sessions_size(), 1);
  ExpectNoSecret(snapshot.SerializeAsString(), told);
  v1::GetSessionMemoryRequest request;
  request.set_session_id(told.session_id);
  v1::SessionMemory memory;
  ASSERT_TRUE(Call(client.monitor, &Monitor::GetSessionMemory, request, memory).ok());
  EXPECT_GT(memory.tokens(), 0u);
  ExpectNoSecret(memory.SerializeAsString(), told);
  v1::Load load;
  ASSERT_TRUE(Call(client.monitor, &Monitor::GetLoad, v1::GetLoadRequest(), load).ok());
  ExpectNoSecret(load.SerializeAsString(), told);
  v1::PoolMemory pool;
  ASSERT_TRUE(Call(client.monitor, &Monitor::GetPool, v1::GetPoolRequest(), pool).ok());
  ExpectNoSecret(pool.SerializeAsString(), told);
}

// Requests with the secrets in them that are refused, each for another reason.
std::vector<v1::GenerateRequest> Refused(const Told& told) {
  std::string long_text;
  while (long_text.size() < 4'000) long_text += kSecret;
  std::vector<v1::GenerateRequest> requests;
  requests.push_back(TextRequest(long_text, 1));
  requests.push_back(TextRequest(long_text + std::string(1 << 20, 'a'), 1));
  requests.push_back(TextRequest(kSecret, 1));
  requests.back().set_session_id("nobody");
  requests.push_back(TextRequest(kSecret, 1));
  requests.back().set_session_id(told.session_id);
  requests.back().set_expected_turn(77);
  requests.push_back(TextRequest(kSecret, 1));
  requests.back().mutable_stopping()->add_stop(long_text);
  requests.push_back(TextRequest(kSecret, 1));
  requests.back().mutable_sampling()->set_top_p(2);
  requests.push_back(TextRequest("", 1));
  Add(requests.back(), v1::ROLE_UNSPECIFIED, kSecret);
  requests.push_back(TextRequest("", 1));
  Add(requests.back(), v1::ROLE_ASSISTANT, kSecret);
  Add(requests.back(), v1::ROLE_SYSTEM, kSystemSecret);
  return requests;
}

void TryWhatIsRefused(Client& client, const Told& told) {
  for (const v1::GenerateRequest& request : Refused(told)) {
    v1::GenerateResponse response;
    EXPECT_FALSE(Unary(client, request, response).ok()) << request.ShortDebugString();
    EXPECT_FALSE(Stream(client, request).Finish().ok());
  }
  v1::TokenizeRequest tokenize;
  while (tokenize.text().size() < 200'000) *tokenize.mutable_text() += kSecret;
  v1::TokenizeResponse tokens;
  EXPECT_FALSE(
      Call(client.inference, &v1::InferenceService::Stub::Tokenize, tokenize, tokens).ok());
  v1::Session session;
  v1::CreateSessionRequest create;
  while (create.system().size() < 4'000) *create.mutable_system() += kSystemSecret;
  EXPECT_FALSE(Call(client.sessions, &Sessions::CreateSession, create, session).ok());
  v1::UpdateSessionRequest update;
  update.set_session_id(told.session_id);
  update.set_system(kSystemSecret);
  EXPECT_FALSE(Call(client.sessions, &Sessions::UpdateSession, update, session).ok());
}

TEST(PrivacyTest, TheLogCarriesNoTextEvenOfWhatIsRefused) {
  const TempDir directory;
  WriteChatModel(directory.path());
  Process process({"--model", directory.path(), "--listen", "127.0.0.1:0", "--log-level", "trace"});
  Client client(process.WaitUntilReady());
  // A full pipe would hold the server up.
  auto log = std::async(std::launch::async, [&process] { return process.ReadErrors(); });
  const Told told = Tell(client);
  v1::GenerateRequest request = TextRequest(kSecret, 8);
  EXPECT_TRUE(Stream(client, request).Finish().ok());
  TryWhatIsRefused(client, told);
  process.Signal(SIGTERM);
  const std::string text = log.get();
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(text, HasSubstr("end "));
  EXPECT_THAT(text, HasSubstr("refused "));
  ExpectNoSecret(text, told);
  // Nor what would let others use the session.
  EXPECT_THAT(text, Not(HasSubstr(told.session_id)));
}

}  // namespace
}  // namespace luna::integration
