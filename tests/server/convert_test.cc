#include "server/rpc/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status_details.h"
#include "core/model/model.h"

namespace luna::rpc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConvertTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = *model::LoadModel("tests/golden/models/tiny-gpt2");
    tokenizer_ = *text::Tokenizer::Create(model_->tokenizer);
  }
  static void TearDownTestSuite() {
    tokenizer_.reset();
    model_.reset();
  }

  void SetUp() override {
    serving_.name = "tiny";
    serving_.model = model_;
    serving_.tokenizer = tokenizer_.get();
    const int windows[] = {0, 0, 0};
    serving_.layout = kv::MakeLayout(windows, 16, 288);
    serving_.longest_token_bytes = 8;
    serving_.max_quota_bytes = 10 * serving_.layout.block_bytes();
    request_.set_text("Once upon a time");
  }

  // The status that `change` of a good request leads to.
  absl::Status After(const std::function<void(v1::GenerateRequest&)>& change) const {
    v1::GenerateRequest request = request_;
    change(request);
    return ToRequest(request, serving_).status();
  }
  void ExpectField(const std::string& field, const std::string& value,
                   const std::function<void(v1::GenerateRequest&)>& change) const {
    const absl::Status status = After(change);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
    EXPECT_EQ(FieldOf(status), field) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(field), HasSubstr(value)));
  }

  static std::shared_ptr<const model::Model> model_;
  static std::unique_ptr<text::Tokenizer> tokenizer_;
  Serving serving_;
  v1::GenerateRequest request_;
};

std::shared_ptr<const model::Model> ConvertTest::model_;
std::unique_ptr<text::Tokenizer> ConvertTest::tokenizer_;

TEST_F(ConvertTest, UnsetAndZeroDiffer) {
  absl::StatusOr<engine::Request> request = ToRequest(request_, serving_);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_FALSE(request->sampling.temperature.has_value());
  EXPECT_FALSE(request->sampling.seed.has_value());
  EXPECT_EQ(request->stopping.max_tokens, -1);
  EXPECT_EQ(request->num_logprobs, -1);
  EXPECT_FALSE(request->expected_turn.has_value());

  request_.mutable_sampling()->set_temperature(0);
  request_.mutable_sampling()->set_seed(0);
  request_.mutable_stopping()->set_max_tokens(0);
  request_.mutable_response_options()->set_logprobs(0);
  request_.set_expected_turn(0);
  request = ToRequest(request_, serving_);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->sampling.temperature, 0.0f);
  EXPECT_EQ(request->sampling.seed, 0u);
  EXPECT_EQ(request->stopping.max_tokens, 0);
  EXPECT_EQ(request->num_logprobs, 0);
  EXPECT_EQ(request->expected_turn, 0u);
}

TEST_F(ConvertTest, EverythingArrives) {
  request_.set_request_id("r");
  request_.set_session_id("s");
  request_.set_priority(-100);
  request_.set_n(1);
  v1::SamplingParams* sampling = request_.mutable_sampling();
  sampling->set_top_k(std::numeric_limits<uint32_t>::max());
  sampling->set_top_p(0.5f);
  sampling->set_min_p(0.25f);
  sampling->set_repetition_penalty(1.5f);
  sampling->set_presence_penalty(-2.0f);
  sampling->set_frequency_penalty(2.0f);
  v1::LogitBias* bias = sampling->add_logit_bias();
  bias->set_token_id(319);
  bias->set_bias(-100.0f);
  v1::StoppingParams* stopping = request_.mutable_stopping();
  stopping->set_max_tokens(9);
  stopping->set_min_tokens(9);
  stopping->add_stop(std::string("끝"));
  stopping->add_stop_ids(7);
  stopping->set_ignore_eos(true);
  request_.mutable_response_options()->set_logprobs(20);
  const absl::StatusOr<engine::Request> request = ToRequest(request_, serving_);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->request_id, "r");
  EXPECT_EQ(request->session_key, "s");
  EXPECT_EQ(request->priority, -100);
  EXPECT_EQ(request->sampling.top_k, 4294967295);
  EXPECT_EQ(request->sampling.top_p, 0.5f);
  EXPECT_EQ(request->sampling.min_p, 0.25f);
  EXPECT_EQ(request->sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request->sampling.presence_penalty, -2.0f);
  EXPECT_EQ(request->sampling.frequency_penalty, 2.0f);
  EXPECT_THAT(*request->sampling.logit_bias, ElementsAre(std::pair<TokenId, float>(319, -100.0f)));
  EXPECT_EQ(request->stopping.min_tokens, 9);
  EXPECT_THAT(request->stopping.stop, ElementsAre("끝"));
  EXPECT_THAT(request->stopping.stop_ids, ElementsAre(7));
  EXPECT_TRUE(request->stopping.ignore_eos);
  EXPECT_EQ(request->num_logprobs, 20);
  EXPECT_EQ(request->input.tokens, *tokenizer_->Encode("Once upon a time"));
  EXPECT_FALSE(request->input.raw);
}

TEST_F(ConvertTest, EveryFloatIsHeldToItsLimits) {
  using Set = void (v1::SamplingParams::*)(float);
  struct Case {
    const char* field;
    Set set;
    std::vector<float> bad;
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Case cases[] = {
      {"temperature", &v1::SamplingParams::set_temperature, {-0.1f, 100.1f}},
      {"top_p", &v1::SamplingParams::set_top_p, {0.0f, -0.5f, 1.01f}},
      {"min_p", &v1::SamplingParams::set_min_p, {-0.1f, 1.1f}},
      {"repetition_penalty", &v1::SamplingParams::set_repetition_penalty, {0.0f, -1.0f, 101.0f}},
      {"presence_penalty", &v1::SamplingParams::set_presence_penalty, {-2.1f, 2.1f}},
      {"frequency_penalty", &v1::SamplingParams::set_frequency_penalty, {-2.1f, 2.1f}},
  };
  for (const Case& c : cases) {
    std::vector<float> bad = c.bad;
    bad.insert(bad.end(), {kNan, kInf, -kInf});
    for (const float value : bad) {
      ExpectField(std::string("sampling.") + c.field, "is outside",
                  [&](auto& request) { (request.mutable_sampling()->*c.set)(value); });
    }
  }
  for (const float value : {kNan, kInf, -kInf, 100.5f}) {
    ExpectField("sampling.logit_bias[0]", "is outside", [&](auto& request) {
      request.mutable_sampling()->add_logit_bias()->set_bias(value);
    });
  }
}

TEST_F(ConvertTest, IdsOutsideTheVocabularyAreNamedAsTheyCame) {
  constexpr uint32_t kHuge = std::numeric_limits<uint32_t>::max();
  ExpectField("sampling.logit_bias[0]", "4294967295", [](auto& request) {
    request.mutable_sampling()->add_logit_bias()->set_token_id(kHuge);
  });
  ExpectField("stopping.stop_ids[1]", "320", [](auto& request) {
    request.mutable_stopping()->add_stop_ids(1);
    request.mutable_stopping()->add_stop_ids(320);
  });
  ExpectField("token_ids.ids[2]", "4294967295", [](auto& request) {
    for (const uint32_t id : {1u, 2u, kHuge}) request.mutable_token_ids()->add_ids(id);
  });
}

TEST_F(ConvertTest, CountsAndLengthsAreBounded) {
  ExpectField("request_id", "129",
              [](auto& request) { request.set_request_id(std::string(129, 'x')); });
  ExpectField("priority", "101", [](auto& request) { request.set_priority(101); });
  ExpectField("priority", "-2147483648",
              [](auto& request) { request.set_priority(std::numeric_limits<int32_t>::min()); });
  ExpectField("response_options.logprobs", "21",
              [](auto& request) { request.mutable_response_options()->set_logprobs(21); });
  ExpectField("stopping.stop[0]", "0 bytes",
              [](auto& request) { request.mutable_stopping()->add_stop(std::string()); });
  ExpectField("stopping.stop[0]", "257",
              [](auto& request) { request.mutable_stopping()->add_stop(std::string(257, 'x')); });
  ExpectField("stopping.stop", "17", [](auto& request) {
    for (int i = 0; i < 17; ++i) request.mutable_stopping()->add_stop(std::string(1, 'x'));
  });
  ExpectField("stopping.min_tokens", "5", [](auto& request) {
    request.mutable_stopping()->set_max_tokens(4);
    request.mutable_stopping()->set_min_tokens(5);
  });
  ExpectField("sampling.logit_bias", "1025", [](auto& request) {
    for (int i = 0; i < 1025; ++i) request.mutable_sampling()->add_logit_bias();
  });
}

TEST_F(ConvertTest, AnInputIsNeeded) {
  ExpectField("input", "text", [](auto& request) { request.clear_input(); });
  ExpectField("text", "0 tokens", [](auto& request) { request.set_text(""); });
  ExpectField("token_ids", "0 tokens", [](auto& request) { request.mutable_token_ids(); });
  // With an opening, or a history, nothing may be enough.
  serving_.has_opening = true;
  EXPECT_TRUE(After([](auto& request) { request.set_text(""); }).ok());
  serving_.has_opening = false;
  EXPECT_TRUE(After([](auto& request) {
                request.set_text("");
                request.set_session_id("s");
              }).ok());
}

TEST_F(ConvertTest, AnInputLongerThanTheContextIsOutOfRangeWithBothNumbers) {
  const auto fill = [](int count) {
    return [count](v1::GenerateRequest& request) {
      request.mutable_token_ids();
      for (int i = 0; i < count; ++i) request.mutable_token_ids()->add_ids(1);
    };
  };
  EXPECT_TRUE(After(fill(96)).ok());
  const absl::Status status = After(fill(97));
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("97"), HasSubstr("96")));
  // So long that it is not even tokenized.
  const absl::Status early =
      After([](auto& request) { request.set_text(std::string(1 << 20, 'a')); });
  EXPECT_TRUE(absl::IsOutOfRange(early)) << early;
  EXPECT_THAT(std::string(early.message()), AllOf(HasSubstr("1048576"), HasSubstr("96")));
}

TEST_F(ConvertTest, MessagesNeedAChatTemplate) {
  const absl::Status status = After([](auto& request) {
    v1::Message* message = request.mutable_messages()->add_messages();
    message->set_role(v1::ROLE_USER);
    message->set_content("hello");
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("chat template"), HasSubstr("tiny")));
  v1::CreateSessionRequest create;
  create.set_system("be brief");
  EXPECT_TRUE(absl::IsFailedPrecondition(ToSessionSpec(create, serving_).status()));
}

TEST_F(ConvertTest, SessionsAreHeldToTheirLimits) {
  v1::CreateSessionRequest create;
  create.set_label(std::string(129, 'x'));
  EXPECT_EQ(FieldOf(ToSessionSpec(create, serving_).status()), "label");
  create.set_label("name");
  create.mutable_default_sampling()->set_temperature(-1);
  EXPECT_EQ(FieldOf(ToSessionSpec(create, serving_).status()), "default_sampling.temperature");
  create.mutable_default_sampling()->set_temperature(0);
  create.set_quota_bytes(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(FieldOf(ToSessionSpec(create, serving_).status()), "quota_bytes");
  create.set_quota_bytes(1);
  EXPECT_EQ(FieldOf(ToSessionSpec(create, serving_).status()), "quota_bytes");
  create.set_quota_bytes(serving_.max_quota_bytes);
  create.set_context_policy(static_cast<v1::ContextPolicy>(9));
  EXPECT_EQ(FieldOf(ToSessionSpec(create, serving_).status()), "context_policy");
  create.set_context_policy(v1::CONTEXT_POLICY_DROP_OLDEST);
  const absl::StatusOr<engine::SessionSpec> spec = ToSessionSpec(create, serving_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->label, "name");
  EXPECT_EQ(spec->quota_bytes, serving_.max_quota_bytes);
  EXPECT_EQ(spec->context_policy, engine::ContextPolicy::kDropOldest);
  EXPECT_EQ(spec->default_sampling.temperature, 0.0f);
}

TEST_F(ConvertTest, AnUpdateKeepsWhatItDoesNotSay) {
  const absl::StatusOr<engine::SessionUpdate> nothing =
      ToSessionUpdate(v1::UpdateSessionRequest(), serving_);
  ASSERT_TRUE(nothing.ok());
  EXPECT_FALSE(nothing->label || nothing->default_sampling || nothing->system ||
               nothing->quota_bytes || nothing->context_policy);
  v1::UpdateSessionRequest update;
  update.set_label("");
  update.mutable_default_sampling();
  update.set_context_policy(v1::CONTEXT_POLICY_REFUSE);
  const absl::StatusOr<engine::SessionUpdate> all = ToSessionUpdate(update, serving_);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->label, "");
  EXPECT_TRUE(all->default_sampling.has_value());
  EXPECT_EQ(all->context_policy, engine::ContextPolicy::kRefuse);
}

TEST(ConvertReplyTest, OnlyTheOwnerSeesTheId) {
  engine::SessionMemory memory;
  memory.id = SessionId(17);
  memory.key = "secret";
  memory.caller = "ipv4:10.0.0.1";
  EXPECT_EQ(ToProto(memory, "ipv4:10.0.0.1").session_id(), "secret");
  EXPECT_TRUE(ToProto(memory, "ipv4:10.0.0.1").own());
  EXPECT_EQ(ToProto(memory, "ipv4:10.0.0.2").session_id(), "s17");
  EXPECT_FALSE(ToProto(memory, "ipv4:10.0.0.2").own());
}

TEST(ConvertReplyTest, ALongDeltaLeavesInPartsThatAClientTakes) {
  constexpr size_t kTokens = 2 * kMaxDeltaTokens + 5;
  engine::Delta delta;
  delta.text = std::string(3 * kTokens, 'x');
  for (size_t i = 0; i < kTokens; ++i) {
    const auto token = static_cast<TokenId>(i);
    delta.tokens.push_back(token);
    // The widest numbers there are.
    delta.logprobs.push_back({.token = token, .logprob = -1.0f, .top = {}});
    delta.logprobs.back().top.assign(sample::kMaxLogprobs, {.token = 1 << 30, .logprob = -2.0f});
  }
  std::vector<v1::Delta> parts;
  while (!delta.empty()) {
    engine::Delta front = SplitFront(delta);
    parts.push_back(ToProto(front));
    EXPECT_LT(parts.back().ByteSizeLong(), size_t{4} << 20);
  }
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].text().size(), 3 * kTokens);
  size_t at = 0;
  for (const v1::Delta& part : parts) {
    ASSERT_EQ(part.logprobs_size(), part.token_ids_size());
    for (int i = 0; i < part.token_ids_size(); ++i, ++at) {
      EXPECT_EQ(part.token_ids(i), at);
      EXPECT_EQ(part.logprobs(i).token_id(), at);
    }
  }
  EXPECT_EQ(at, kTokens);
  EXPECT_TRUE(parts[1].text().empty());
}

TEST(ConvertReplyTest, ADeltaWithoutLogprobsIsSplitToo) {
  engine::Delta delta;
  delta.tokens.resize(kMaxDeltaTokens + 1);
  EXPECT_EQ(SplitFront(delta).tokens.size(), kMaxDeltaTokens);
  EXPECT_EQ(delta.tokens.size(), 1u);
  EXPECT_TRUE(delta.logprobs.empty());
}

TEST(ConvertReplyTest, ASeedOfZeroAndAStopIdOfZeroAreSaid) {
  engine::Accepted accepted;
  accepted.stopping.max_tokens = 0;
  const v1::Accepted out = ToProto(accepted);
  EXPECT_TRUE(out.sampling().has_seed());
  EXPECT_TRUE(out.stopping().has_max_tokens());
  engine::Finished finished;
  EXPECT_FALSE(ToProto(finished).has_stop_id());
  finished.stop_id = 0;
  EXPECT_TRUE(ToProto(finished).has_stop_id());
}

}  // namespace
}  // namespace luna::rpc
