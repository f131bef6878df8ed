// Chat templates over the wire, on a tiny model that was given ChatML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/fakes/temp_dir.h"
#include "tests/integration/chat_model.h"
#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using ::testing::HasSubstr;

class ChatTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TempDir();
    WriteChatModel(directory_->path());
    server_ = new TestServer(OptionsFor(directory_->path()));
  }
  static void TearDownTestSuite() {
    delete server_;
    delete directory_;
  }
  static Client& client() { return server_->client(); }

  static v1::GenerateRequest Request(
      const std::vector<std::pair<v1::Role, std::string>>& messages) {
    v1::GenerateRequest request = TextRequest("", 8);
    for (const auto& [role, content] : messages) {
      v1::Message* message = request.mutable_messages()->add_messages();
      message->set_role(role);
      message->set_content(content);
    }
    Settle(request);
    return request;
  }
  static void Settle(v1::GenerateRequest& request) {
    request.mutable_sampling()->set_seed(5);
    request.mutable_stopping()->set_ignore_eos(true);
  }
  static v1::GenerateResponse Answer(const v1::GenerateRequest& request) {
    v1::GenerateResponse response;
    const grpc::Status status = Unary(client(), request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  static TempDir* directory_;
  static TestServer* server_;
};

TempDir* ChatTest::directory_ = nullptr;
TestServer* ChatTest::server_;

TEST_F(ChatTest, TheModelSaysThatItChats) {
  v1::GetModelResponse model;
  ASSERT_TRUE(
      Call(client().inference, &v1::InferenceService::Stub::GetModel, v1::GetModelRequest(), model)
          .ok());
  EXPECT_TRUE(model.has_chat_template());
  EXPECT_EQ(model.chat_family(), "chatml");
  EXPECT_EQ(model.default_system(), "Be kind");
}

TEST_F(ChatTest, TextIsOneUserTurn) {
  v1::GenerateRequest text = TextRequest("hi", 8);
  Settle(text);
  const v1::GenerateResponse as_text = Answer(text);
  const v1::GenerateResponse as_message = Answer(Request({{v1::ROLE_USER, "hi"}}));
  EXPECT_EQ(as_text.text(), as_message.text());
  EXPECT_EQ(as_text.finished().usage().prompt_tokens(),
            as_message.finished().usage().prompt_tokens());
  // More than the two letters: the default system prompt, the markers.
  EXPECT_GT(as_text.finished().usage().prompt_tokens(), 20u);
}

TEST_F(ChatTest, ControlTokensTypedByAUserArePlainText) {
  v1::TokenizeRequest request;
  request.set_text("<|im_end|>");
  v1::TokenizeResponse plain;
  ASSERT_TRUE(Call(client().inference, &v1::InferenceService::Stub::Tokenize, request, plain).ok());
  EXPECT_GT(plain.ids_size(), 1);
  request.set_parse_special(true);
  v1::TokenizeResponse special;
  ASSERT_TRUE(
      Call(client().inference, &v1::InferenceService::Stub::Tokenize, request, special).ok());
  ASSERT_EQ(special.ids_size(), 1);
  EXPECT_EQ(special.ids(0), 319u);
  const auto prompt_tokens = [](const std::string& content) {
    return Answer(Request({{v1::ROLE_USER, content}})).finished().usage().prompt_tokens();
  };
  EXPECT_EQ(prompt_tokens("<|im_end|>") - prompt_tokens(""),
            static_cast<uint32_t>(plain.ids_size()));
}

TEST_F(ChatTest, ASessionsSystemPromptIsASystemMessage) {
  v1::CreateSessionRequest create;
  create.set_system("Talk like a fox");
  const std::string id = CreateSession(client(), create);
  EXPECT_EQ(GetSession(client(), id).system(), "Talk like a fox");
  v1::GenerateRequest turn = Request({{v1::ROLE_USER, "hi"}});
  turn.set_session_id(id);
  const v1::GenerateResponse in_session = Answer(turn);
  const v1::GenerateResponse one_off =
      Answer(Request({{v1::ROLE_SYSTEM, "Talk like a fox"}, {v1::ROLE_USER, "hi"}}));
  EXPECT_EQ(in_session.text(), one_off.text());
  EXPECT_EQ(in_session.finished().usage().prompt_tokens(),
            one_off.finished().usage().prompt_tokens());

  v1::UpdateSessionRequest update;
  update.set_session_id(id);
  update.set_system("Talk like a bear");
  v1::Session session;
  EXPECT_EQ(Call(client().sessions, &v1::SessionService::Stub::UpdateSession, update, session)
                .error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(ChatTest, TurnsOfASessionAreWhatTheConversationIsAtOnce) {
  v1::GenerateRequest first = Request({{v1::ROLE_USER, "hi"}});
  first.set_session_id(CreateSession(client()));
  const v1::GenerateResponse answer = Answer(first);
  v1::GenerateRequest second = Request({{v1::ROLE_USER, "more"}});
  second.set_session_id(first.session_id());
  const v1::GenerateResponse continued = Answer(second);
  // Between the answer and the next message stand its end and a newline.
  const auto prompt_tokens = [](const v1::GenerateResponse& response) {
    return response.finished().usage().prompt_tokens();
  };
  v1::GenerateRequest only = Request({{v1::ROLE_SYSTEM, ""}, {v1::ROLE_USER, "more"}});
  v1::GenerateRequest none = Request({{v1::ROLE_SYSTEM, ""}, {v1::ROLE_USER, ""}});
  const uint32_t empty_turn = prompt_tokens(Answer(none));
  EXPECT_GT(empty_turn, 0u);
  EXPECT_GT(prompt_tokens(continued), prompt_tokens(answer) + answer.token_ids_size() +
                                          prompt_tokens(Answer(only)) - empty_turn);
}

TEST_F(ChatTest, BadMessagesAreFieldViolations) {
  const auto refusal = [](const v1::GenerateRequest& request) {
    v1::GenerateResponse response;
    return Unary(client(), request, response);
  };
  grpc::Status status = refusal(Request({{v1::ROLE_UNSPECIFIED, "hi"}}));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ViolatedField(status), "messages[0].role");
  status = refusal(Request({{v1::ROLE_USER, "hi"}, {v1::ROLE_ASSISTANT, "hello"}}));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("1"));
  EXPECT_FALSE(ViolatedField(status).empty());
  v1::GenerateRequest none = TextRequest("", 1);
  none.mutable_messages();
  status = refusal(none);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ViolatedField(status), "messages");
}

}  // namespace
}  // namespace luna::integration
