// What reaches the reader of an answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/text/utf8.h"
#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Event = v1::GenerateEvent;

class StreamingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    stories_ = new TestServer(OptionsFor(kStoryModel));
    tiny_ = new TestServer(OptionsFor(kTinyModel));
  }
  static void TearDownTestSuite() {
    delete stories_;
    delete tiny_;
  }
  static Client& stories() { return stories_->client(); }
  static Client& tiny() { return tiny_->client(); }

  static TestServer* stories_;
  static TestServer* tiny_;
};

TestServer* StreamingTest::stories_;
TestServer* StreamingTest::tiny_;

TEST_F(StreamingTest, EventsComeInOrderAndAddUp) {
  v1::GenerateRequest request = TextRequest("Once upon a time", 40);
  request.mutable_sampling()->set_seed(7);
  request.mutable_stopping()->set_ignore_eos(true);
  Stream stream(stories(), request);
  ASSERT_TRUE(stream.Finish().ok());

  ASSERT_GE(stream.events.size(), 4u);
  EXPECT_EQ(stream.events.front().event_case(), Event::kAccepted);
  EXPECT_EQ(stream.events[1].event_case(), Event::kPrompt);
  EXPECT_EQ(stream.events.back().event_case(), Event::kFinished);
  for (size_t i = 0; i < stream.events.size(); ++i) {
    EXPECT_EQ(stream.events[i].seq(), i);
    const bool inside = i >= 2 && i + 1 < stream.events.size();
    EXPECT_EQ(stream.events[i].event_case() == Event::kDelta, inside);
  }
  EXPECT_EQ(stream.accepted.generation_id().size(), 32u);
  EXPECT_EQ(stream.accepted.seed(), 7u);
  EXPECT_EQ(stream.accepted.sampling().seed(), 7u);
  EXPECT_EQ(stream.accepted.sampling().temperature(), 1.0f);
  EXPECT_EQ(stream.accepted.stopping().max_tokens(), 40u);
  EXPECT_EQ(stream.finished.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(stream.finished.limit(), v1::LIMIT_MAX_TOKENS);
  EXPECT_EQ(stream.token_ids.size(), 40u);
  EXPECT_EQ(stream.finished.usage().completion_tokens(), 40u);
  EXPECT_EQ(stream.finished.usage().prompt_tokens(), stream.prompt.tokens());
  EXPECT_EQ(stream.prompt.tokens(), Tokenize(stories(), "Once upon a time").size());
  EXPECT_GE(stream.finished.usage().peak_blocks(), 2u);
  EXPECT_GT(stream.finished.usage().ttft_ms(), 0.0);
}

TEST_F(StreamingTest, UnaryIsTheJoinedStream) {
  for (const char* prompt : {"Once upon a time", "옛날 옛적에", "🐰🦊"}) {
    v1::GenerateRequest request = TextRequest(prompt, 60);
    request.mutable_sampling()->set_seed(11);
    request.mutable_response_options()->set_logprobs(2);
    Stream stream(stories(), request);
    ASSERT_TRUE(stream.Finish().ok());
    v1::GenerateResponse response;
    ASSERT_TRUE(Unary(stories(), request, response).ok());
    EXPECT_EQ(response.text(), stream.text);
    EXPECT_EQ(std::vector<uint32_t>(response.token_ids().begin(), response.token_ids().end()),
              stream.token_ids);
    EXPECT_EQ(response.finished().reason(), stream.finished.reason());
    EXPECT_EQ(response.seed(), 11u);
    EXPECT_EQ(response.generation_id().size(), 32u);
    ASSERT_EQ(response.logprobs_size(), response.token_ids_size());
    int at = 0;
    for (const Event& event : stream.events) {
      ASSERT_EQ(event.delta().logprobs_size(), event.delta().token_ids_size());
      for (const v1::TokenLogprobs& one : event.delta().logprobs()) {
        EXPECT_EQ(one.SerializeAsString(), response.logprobs(at++).SerializeAsString());
        EXPECT_EQ(one.top_size(), 2);
        EXPECT_GE(one.top(0).logprob(), one.logprob());
      }
    }
  }
}

TEST_F(StreamingTest, LogprobsAreThoseBeforeTemperature) {
  std::vector<std::string> logprobs;
  for (const float temperature : {0.2f, 2.0f}) {
    v1::GenerateRequest request = TextRequest("Once upon a time", 20);
    request.mutable_sampling()->set_temperature(temperature);
    request.mutable_sampling()->set_top_k(1);  // the same words at any temperature
    request.mutable_stopping()->set_ignore_eos(true);
    request.mutable_response_options()->set_logprobs(5);
    v1::GenerateResponse response;
    ASSERT_TRUE(Unary(stories(), request, response).ok());
    ASSERT_EQ(response.logprobs_size(), 20);
    EXPECT_LT(response.logprobs(0).logprob(), 0.0f);
    for (const v1::TokenLogprobs& one : response.logprobs()) {
      logprobs.push_back(one.SerializeAsString());
    }
  }
  EXPECT_TRUE(std::equal(logprobs.begin(), logprobs.begin() + 20, logprobs.begin() + 20));
}

// How many of the ids are a part of a character by themselves.
int CountSplit(Client& client, const std::vector<uint32_t>& ids) {
  int split = 0;
  for (const uint32_t id : ids) {
    v1::DetokenizeRequest request;
    request.add_ids(id);
    v1::DetokenizeResponse response;
    EXPECT_TRUE(
        Call(client.inference, &v1::InferenceService::Stub::Detokenize, request, response).ok());
    split += response.text().find("\uFFFD") != std::string::npos;
  }
  return split;
}

TEST_F(StreamingTest, EveryDeltaIsValidUtf8) {
  int split_characters = 0;
  for (Client* client : {&stories(), &tiny()}) {
    for (const char* prompt : {"옛날 옛적에", "🐰🦊", "a"}) {
      for (uint64_t seed = 0; seed < 5; ++seed) {
        v1::GenerateRequest request = TextRequest(prompt, 60);
        request.mutable_sampling()->set_seed(seed);
        request.mutable_stopping()->set_ignore_eos(true);
        Stream stream(*client, request);
        ASSERT_TRUE(stream.Finish().ok());
        for (const Event& event : stream.events) {
          EXPECT_TRUE(text::CheckUtf8(event.delta().text()).ok());
        }
        if (seed == 0) split_characters += CountSplit(*client, stream.token_ids);
      }
    }
  }
  // Otherwise nothing was tried.
  EXPECT_GT(split_characters, 0);
}

// A token that is the beginning of a character and nothing else.
uint32_t HalfCharacter(Client& client) {
  v1::TokenizeRequest request;
  request.set_text("뷁🦔");
  v1::TokenizeResponse response;
  EXPECT_TRUE(
      Call(client.inference, &v1::InferenceService::Stub::Tokenize, request, response).ok());
  for (int i = 0; i < response.ids_size(); ++i) {
    const std::string& piece = response.pieces(i);
    const unsigned char first = piece.empty() ? 0 : piece[0];
    if (first >= 0xE0 && piece.size() == 1) return response.ids(i);
  }
  ADD_FAILURE() << "every character is whole";
  return 0;
}

TEST_F(StreamingTest, TheLimitInTheMiddleOfACharacter) {
  for (Client* client : {&stories(), &tiny()}) {
    v1::GenerateRequest request = TextRequest("a", 1);
    request.mutable_sampling()->set_temperature(0);
    v1::LogitBias* bias = request.mutable_sampling()->add_logit_bias();
    bias->set_token_id(HalfCharacter(*client));
    bias->set_bias(100);
    Stream stream(*client, request);
    ASSERT_TRUE(stream.Finish().ok());
    EXPECT_EQ(stream.text, "\uFFFD");
    EXPECT_EQ(stream.token_ids, std::vector<uint32_t>{bias->token_id()});
    EXPECT_EQ(stream.finished.reason(), v1::FINISH_REASON_LENGTH);
    EXPECT_EQ(stream.finished.usage().completion_tokens(), 1u);
    v1::GenerateResponse response;
    ASSERT_TRUE(Unary(*client, request, response).ok());
    EXPECT_EQ(response.text(), "\uFFFD");
  }
}

// An answer to stop in, with a character boundary at every byte.
v1::GenerateResponse EnglishAnswer(Client& client, v1::GenerateRequest& request) {
  request = TextRequest("Once upon a time", 60);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_ignore_eos(true);
  v1::GenerateResponse response;
  EXPECT_TRUE(Unary(client, request, response).ok());
  EXPECT_GE(response.text().size(), 60u);
  return response;
}

TEST_F(StreamingTest, AStopStringOverSeveralTokensLeaksNothing) {
  v1::GenerateRequest request;
  const std::string whole = EnglishAnswer(stories(), request).text();
  const std::string stop = whole.substr(20, 30);
  ASSERT_GE(Tokenize(stories(), stop).size(), 4u);
  request.mutable_stopping()->add_stop("never in any story");
  request.mutable_stopping()->add_stop(stop);
  Stream stream(stories(), request);
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.text, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(stream.finished.reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(stream.finished.stop(), stop);
  EXPECT_EQ(stream.finished.usage().completion_tokens(), stream.token_ids.size());
}

TEST_F(StreamingTest, TextHeldBackForAStopThatNeverComesArrives) {
  v1::GenerateRequest request;
  const std::string whole = EnglishAnswer(stories(), request).text();
  request.mutable_stopping()->add_stop(whole.substr(whole.size() - 5) + "\x01");
  Stream stream(stories(), request);
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.text, whole);
  EXPECT_EQ(stream.finished.reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(StreamingTest, StopIdsEndAnAnswer) {
  v1::GenerateRequest request;
  const v1::GenerateResponse whole = EnglishAnswer(stories(), request);
  const uint32_t id = whole.token_ids(5);
  request.mutable_stopping()->add_stop_ids(id);
  Stream stream(stories(), request);
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.finished.reason(), v1::FINISH_REASON_STOP);
  ASSERT_TRUE(stream.finished.has_stop_id());
  EXPECT_EQ(stream.finished.stop_id(), id);
  EXPECT_EQ(stream.token_ids.back(), id);
  EXPECT_LE(stream.token_ids.size(), 6u);
}

TEST_F(StreamingTest, ZeroTokensAreAnAnswer) {
  Stream stream(tiny(), TextRequest("a", 0));
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(stream.events.front().has_accepted());
  EXPECT_EQ(stream.finished.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(stream.finished.limit(), v1::LIMIT_MAX_TOKENS);
  EXPECT_EQ(stream.finished.usage().completion_tokens(), 0u);
  EXPECT_TRUE(stream.text.empty());
}

TEST_F(StreamingTest, APromptMayFillTheContext) {
  v1::GenerateRequest request;
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_token_ids()->mutable_ids()->Resize(95, 5);
  Stream one_left(tiny(), request);
  ASSERT_TRUE(one_left.Finish().ok());
  EXPECT_EQ(one_left.token_ids.size(), 1u);
  EXPECT_EQ(one_left.finished.limit(), v1::LIMIT_CONTEXT);

  request.mutable_token_ids()->add_ids(5);
  Stream full(tiny(), request);
  ASSERT_TRUE(full.Finish().ok());
  EXPECT_EQ(full.token_ids.size(), 0u);
  EXPECT_EQ(full.finished.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(full.finished.limit(), v1::LIMIT_CONTEXT);

  request.mutable_token_ids()->add_ids(5);
  Stream too_long(tiny(), request);
  const grpc::Status status = too_long.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_THAT(status.error_message(), HasSubstr("97"));
  EXPECT_THAT(status.error_message(), HasSubstr("96"));
  EXPECT_TRUE(too_long.events.empty());
}

TEST_F(StreamingTest, DetokenizeGivesTheTextBack) {
  for (const char* text : {"Once upon a time", "옛날 옛적에 🐰", "<|endoftext|> 뷁\n\t "}) {
    v1::DetokenizeRequest request;
    for (const uint32_t id : Tokenize(stories(), text)) request.add_ids(id);
    v1::DetokenizeResponse response;
    ASSERT_TRUE(
        Call(stories().inference, &v1::InferenceService::Stub::Detokenize, request, response).ok());
    EXPECT_EQ(response.text(), text);
  }
}

TEST_F(StreamingTest, GetModelSaysWhatIsServed) {
  v1::GetModelResponse model;
  ASSERT_TRUE(
      Call(stories().inference, &v1::InferenceService::Stub::GetModel, v1::GetModelRequest(), model)
          .ok());
  EXPECT_EQ(model.name(), "luna-tiny");
  EXPECT_EQ(model.architecture(), "gpt2");
  EXPECT_EQ(model.context_length(), 512u);
  EXPECT_EQ(model.backend(), "cpu");
  EXPECT_FALSE(model.numerics().empty());
  EXPECT_FALSE(model.digest().empty());
  constexpr uint64_t kHeads = 5;  // each with a scale
  EXPECT_EQ(model.kv_bytes_per_token(),
            model.num_layers() * 2 * (model.hidden_size() + kHeads * sizeof(float)));
  EXPECT_FALSE(model.has_chat_template());
  EXPECT_EQ(model.end_ids_size(), 1);
  EXPECT_THAT(model.server_version(), Not(::testing::IsEmpty()));
}

}  // namespace
}  // namespace luna::integration
