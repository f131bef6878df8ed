#include "core/sample/params.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "core/base/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::sample {
namespace {

// What InvalidField makes of "<field>: <reason>".
absl::Status Refused(std::string_view message) {
  const size_t colon = message.find(": ");
  return InvalidField(message.substr(0, colon), message.substr(colon + 2));
}

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kVocab = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct FloatField {
  std::string name;
  std::function<void(SamplingParams&, float)> set;
  std::vector<float> allowed;
  std::vector<float> refused;  // besides NaN and the infinities
  std::string limit;
};

std::vector<FloatField> FloatFields() {
  return {
      {"temperature",
       [](auto& p, float v) { p.temperature = v; },
       {0.0f, -0.0f, 1e-30f, 1.0f, 100.0f},
       {-1e-30f, -1.0f, 100.001f},
       "[0, 100]"},
      {"top_p",
       [](auto& p, float v) { p.top_p = v; },
       {1e-30f, 0.5f, 1.0f},
       {0.0f, -0.5f, 1.001f},
       "(0, 1]"},
      {"min_p",
       [](auto& p, float v) { p.min_p = v; },
       {0.0f, 0.5f, 1.0f},
       {-0.001f, 1.001f},
       "[0, 1]"},
      {"repetition_penalty",
       [](auto& p, float v) { p.repetition_penalty = v; },
       {1e-30f, 1.0f, 100.0f},
       {0.0f, -1.0f, 100.001f},
       "(0, 100]"},
      {"presence_penalty",
       [](auto& p, float v) { p.presence_penalty = v; },
       {-2.0f, 0.0f, 2.0f},
       {-2.001f, 2.001f},
       "[-2, 2]"},
      {"frequency_penalty",
       [](auto& p, float v) { p.frequency_penalty = v; },
       {-2.0f, 0.0f, 2.0f},
       {-2.001f, 2.001f},
       "[-2, 2]"},
      {"logit_bias[0]",
       [](auto& p, float v) {
         p.logit_bias = {{7, v}};
       },
       {-100.0f, 0.0f, 100.0f},
       {-100.001f, 100.001f},
       "[-100, 100]"},
  };
}

TEST(ValidateSamplingTest, DefaultsAreAllowed) {
  EXPECT_TRUE(Validate(SamplingParams{}, kVocab).ok());
}

TEST(ValidateSamplingTest, FloatsWithinTheirLimitsAreAllowed) {
  for (const FloatField& field : FloatFields()) {
    for (const float value : field.allowed) {
      SamplingParams params;
      field.set(params, value);
      EXPECT_TRUE(Validate(params, kVocab).ok()) << field.name << " = " << value;
    }
  }
}

TEST(ValidateSamplingTest, OtherFloatsAreRefusedWithFieldValueAndLimit) {
  for (const FloatField& field : FloatFields()) {
    std::vector<float> refused = field.refused;
    refused.insert(refused.end(), {kNan, -kNan, kInf, -kInf});
    for (const float value : refused) {
      SamplingParams params;
      field.set(params, value);
      const absl::Status status = Validate(params, kVocab);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field.name << " = " << value;
      const std::string message(status.message().data(), status.message().size());
      EXPECT_THAT(message, StartsWith(field.name + ": "));
      EXPECT_THAT(message, HasSubstr(field.limit));
      EXPECT_THAT(message, HasSubstr(std::isnan(value)   ? "nan"
                                     : std::isinf(value) ? "inf"
                                                         : "is outside"));
    }
  }
}

struct Refusal {
  std::string message;
  std::function<void(SamplingParams&)> set;
};

TEST(ValidateSamplingTest, RefusesWithTheWholeMessage) {
  const std::vector<Refusal> refusals = {
      {"temperature: -0.5 is outside [0, 100]", [](auto& p) { p.temperature = -0.5f; }},
      {"top_k: -1 is below 0", [](auto& p) { p.top_k = -1; }},
      {"top_p: 1.5 is outside (0, 1]", [](auto& p) { p.top_p = 1.5f; }},
      {"logit_bias: 1025 entries; the limit is 1024", [](auto& p) { p.logit_bias.resize(1025); }},
      {"logit_bias[1]: token id 100 is outside the vocabulary of 100",
       [](auto& p) {
         p.logit_bias = {{99, 1.0f}, {100, 1.0f}};
       }},
      {"logit_bias[0]: token id -1 is outside the vocabulary of 100",
       [](auto& p) {
         p.logit_bias = {{-1, 1.0f}};
       }},
      {"num_logprobs: 21 is outside [0, 20]", [](auto& p) { p.num_logprobs = 21; }},
      {"num_logprobs: -2 is outside [0, 20]", [](auto& p) { p.num_logprobs = -2; }},
  };
  for (const Refusal& refusal : refusals) {
    SamplingParams params;
    refusal.set(params);
    EXPECT_EQ(Validate(params, kVocab), Refused(refusal.message));
  }
}

TEST(ValidateSamplingTest, CountsUpToTheirLimitsAreAllowed) {
  SamplingParams params;
  params.top_k = std::numeric_limits<int64_t>::max();  // at least the vocabulary: all
  params.logit_bias.resize(kMaxLogitBias, {0, 1.0f});
  params.num_logprobs = kMaxLogprobs;
  EXPECT_TRUE(Validate(params, kVocab).ok());
}

TEST(ValidateSamplingTest, MoreLogprobsThanTokensAreRefused) {
  SamplingParams params;
  params.num_logprobs = 6;
  EXPECT_EQ(Validate(params, 5), Refused("num_logprobs: 6 is outside [0, 5]"));
  params.num_logprobs = 5;
  EXPECT_TRUE(Validate(params, 5).ok());
}

struct StopRefusal {
  std::string message;
  std::function<void(StopParams&)> set;
};

TEST(ValidateStopTest, RefusesWithTheWholeMessage) {
  const std::vector<StopRefusal> refusals = {
      {"max_tokens: -2 is below 0", [](auto& p) { p.max_tokens = -2; }},
      {"min_tokens: -1 is below 0", [](auto& p) { p.min_tokens = -1; }},
      {"min_tokens: 5 is above max_tokens, 4", [](auto& p) { p.min_tokens = 5, p.max_tokens = 4; }},
      {"stop: 17 entries; the limit is 16", [](auto& p) { p.stop.resize(17, "x"); }},
      {"stop[1]: 0 bytes; it takes 1 to 256",
       [](auto& p) {
         p.stop = {"x", ""};
       }},
      {"stop[0]: 257 bytes; it takes 1 to 256", [](auto& p) { p.stop = {std::string(257, 'x')}; }},
      {"stop_ids: 65 entries; the limit is 64", [](auto& p) { p.stop_ids.resize(65); }},
      {"stop_ids[0]: token id -1 is outside the vocabulary of 100",
       [](auto& p) { p.stop_ids = {-1}; }},
      {"stop_ids[2]: token id 100 is outside the vocabulary of 100",
       [](auto& p) {
         p.stop_ids = {0, 99, 100};
       }},
  };
  for (const StopRefusal& refusal : refusals) {
    StopParams params;
    refusal.set(params);
    EXPECT_EQ(Validate(params, kVocab), Refused(refusal.message));
  }
}

TEST(ValidateStopTest, ValuesUpToTheirLimitsAreAllowed) {
  EXPECT_TRUE(Validate(StopParams{}, kVocab).ok());
  StopParams params;
  params.max_tokens = 0;
  EXPECT_TRUE(Validate(params, kVocab).ok());
  params.max_tokens = std::numeric_limits<int64_t>::max();
  params.min_tokens = std::numeric_limits<int64_t>::max();
  params.stop.resize(kMaxStopStrings, std::string(kMaxStopBytes, 'x'));
  params.stop_ids.resize(kMaxStopIds, kVocab - 1);
  EXPECT_TRUE(Validate(params, kVocab).ok());
}

}  // namespace
}  // namespace luna::sample
