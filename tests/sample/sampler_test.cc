#include "core/sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "core/sample/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::sample {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

SampledToken SampleOne(std::vector<float> logits, const SampleSpec& spec) {
  Sampler sampler(static_cast<int>(logits.size()));
  SampledToken out;
  sampler.Sample(logits, spec, out);
  return out;
}

// The tokens that some draw of many gives.
std::set<TokenId> Reachable(const std::vector<float>& logits, const SamplingParams& params,
                            SampleSpec spec = {}) {
  Sampler sampler(static_cast<int>(logits.size()));
  std::set<TokenId> tokens;
  spec.params = &params;
  SampledToken out;
  for (uint64_t position = 0; position < 2000; ++position) {
    std::vector<float> copy = logits;
    spec.position = position;
    sampler.Sample(copy, spec, out);
    EXPECT_TRUE(out.status.ok()) << out.status;
    tokens.insert(out.token);
  }
  return tokens;
}

// Most candidates of a flat distribution lie far behind the few hundred that are ordered first.
TEST(SamplerTest, DrawsFromTheWholeOfAFlatDistribution) {
  constexpr int kVocab = 20'000;
  const SamplingParams params;
  Sampler sampler(kVocab);
  SampledToken out;
  for (uint64_t position = 0; position < 40; ++position) {
    std::vector<float> logits(kVocab, 0.5f);
    sampler.Sample(logits, {.params = &params, .seed = 3, .position = position}, out);
    // All equal: the running sum passes u * vocabulary at that id.
    EXPECT_EQ(out.token, static_cast<TokenId>(double{Uniform(3, position)} * kVocab));
  }
}

TEST(SamplerTest, FollowsTheDistribution) {
  constexpr int kDraws = 50'000;
  const std::vector<float> logits = {0.0f, 2.0f, -1.0f, 1.0f, 0.5f, -3.0f, 0.0f, 1.5f};
  SamplingParams params;
  params.temperature = 1.3f;
  std::vector<double> expected;
  for (const float logit : logits) expected.push_back(std::exp(logit / params.temperature));
  const double total = std::accumulate(expected.begin(), expected.end(), 0.0);

  Sampler sampler(static_cast<int>(logits.size()));
  std::vector<int> counts(logits.size(), 0);
  SampledToken out;
  for (uint64_t position = 0; position < kDraws; ++position) {
    std::vector<float> copy = logits;
    sampler.Sample(copy, {.params = &params, .seed = 11, .position = position}, out);
    ++counts[out.token];
  }
  double chi_square = 0.0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double mean = expected[i] / total * kDraws;
    chi_square += (counts[i] - mean) * (counts[i] - mean) / mean;
  }
  EXPECT_LT(chi_square, 24.3);  // 99.9th percentile with 7 degrees of freedom
}

TEST(SamplerTest, TemperatureZeroIsGreedyAndTiesGoToTheLowestId) {
  SamplingParams params;
  params.temperature = 0.0f;
  EXPECT_EQ(SampleOne({1.0f, 5.0f, 5.0f, 2.0f}, {.params = &params}).token, 1);
}

TEST(SamplerTest, ATinyTemperatureIsGreedyToo) {
  for (const float temperature : {1e-45f, 1e-30f, 1e-4f}) {
    SamplingParams params;
    params.temperature = temperature;
    EXPECT_THAT(Reachable({1.0f, 5.0f, 4.9f, 2.0f}, params), ElementsAre(1)) << temperature;
  }
}

TEST(SamplerTest, TopKTiesGoToTheLowestId) {
  SamplingParams params;
  params.top_k = 2;
  EXPECT_THAT(Reachable({0.0f, 1.0f, 1.0f, 1.0f}, params), ElementsAre(1, 2));
}

TEST(SamplerTest, TopKAboveTheVocabularyIsAll) {
  SamplingParams params;
  params.top_k = 1'000'000;
  EXPECT_THAT(Reachable({0.0f, 1.0f, 1.0f}, params), ElementsAre(0, 1, 2));
}

TEST(SamplerTest, TopPKeepsTheTokenThatReachesIt) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f), std::log(0.15f),
                                     std::log(0.25f)};
  SamplingParams params;
  params.top_p = 0.6f;
  EXPECT_THAT(Reachable(logits, params), ElementsAre(1, 3));
  params.top_p = 0.4f;
  EXPECT_THAT(Reachable(logits, params), ElementsAre(1));
  params.top_p = 1e-45f;
  EXPECT_THAT(Reachable(logits, params), ElementsAre(1));
}

TEST(SamplerTest, TopPCountsTheShareOfWhatTopKKept) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f), std::log(0.15f),
                                     std::log(0.25f)};
  SamplingParams params;
  params.top_k = 2;  // 2/3 and 1/3 are left
  params.top_p = 0.6f;
  EXPECT_THAT(Reachable(logits, params), ElementsAre(1));
}

TEST(SamplerTest, MinPIsAShareOfTheFirst) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f), std::log(0.15f),
                                     std::log(0.25f)};
  SamplingParams params;
  params.min_p = 0.25f;
  EXPECT_THAT(Reachable(logits, params), ElementsAre(1, 2, 3));
  params.min_p = 1.0f;
  EXPECT_THAT(Reachable(logits, params), ElementsAre(1));
}

TEST(SamplerTest, RepetitionPenaltyTakesPromptAndOutputOnceEach) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.repetition_penalty = 2.0f;
  const std::vector<TokenId> prompt = {0, 0, 0}, output = {0, 1};
  const SampleSpec spec = {.params = &params, .prompt = prompt, .output = output};
  // 4 / 2 = 2 however often it occurs.
  EXPECT_EQ(SampleOne({4.0f, 3.0f, 1.9f}, spec).token, 0);
  EXPECT_EQ(SampleOne({4.0f, 3.0f, 2.1f}, spec).token, 2);
  // Negative logits are multiplied: -1 becomes -2.
  EXPECT_EQ(SampleOne({-1.0f, -1.0f, -1.9f}, spec).token, 2);
  EXPECT_EQ(SampleOne({-1.0f, -1.0f, -2.1f}, spec).token, 0);
}

TEST(SamplerTest, PresenceAndFrequencyPenaltiesTakeTheOutputOnly) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.presence_penalty = 1.0f;
  params.frequency_penalty = 0.5f;
  const std::vector<TokenId> prompt = {1, 1, 1, 1}, output = {0, 0};
  const SampleSpec spec = {.params = &params, .prompt = prompt, .output = output};
  EXPECT_EQ(SampleOne({3.0f, 0.9f}, spec).token, 0);  // 3 - 1 - 2 * 0.5 = 1
  EXPECT_EQ(SampleOne({3.0f, 1.1f}, spec).token, 1);
}

TEST(SamplerTest, APenaltyNearZeroStaysFinite) {
  SamplingParams params;
  params.repetition_penalty = 1e-45f;
  const std::vector<TokenId> prompt = {0, 1};
  const SampledToken out =
      SampleOne({4.0f, 3.0f, 2.0f, -kInf}, {.params = &params, .prompt = prompt});
  EXPECT_TRUE(out.status.ok()) << out.status;
  EXPECT_LE(out.token, 1);
}

TEST(SamplerTest, BiasMovesALogit) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.logit_bias = {{2, 100.0f}, {0, -100.0f}};
  EXPECT_EQ(SampleOne({9.0f, 8.0f, 0.0f}, {.params = &params}).token, 2);
}

TEST(SamplerTest, AMaskedTokenIsNotChosenWhateverItsBias) {
  SamplingParams params;
  params.logit_bias = {{1, 100.0f}};
  const std::vector<TokenId> masked = {1, 77};  // 77: no such token
  EXPECT_THAT(Reachable({0.0f, 9.0f, 0.0f}, params, {.masked = masked}), ElementsAre(0, 2));
}

TEST(SamplerTest, AllMaskedIsAClearStatus) {
  const SamplingParams params;
  const std::vector<TokenId> masked = {0, 1};
  const SampledToken out = SampleOne({1.0f, 2.0f, -kInf}, {.params = &params, .masked = masked});
  EXPECT_EQ(out.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(out.status.message().data(), out.status.message().size()),
              HasSubstr("masked"));
}

TEST(SamplerTest, LogitsThatAreNotFiniteFailTheRowAlone) {
  Sampler sampler(3);
  SamplingParams params;
  params.num_logprobs = 2;
  SampledToken out;
  for (const std::vector<float>& bad : std::vector<std::vector<float>>{
           {1.0f, kNan, 2.0f}, {1.0f, -kNan, 2.0f}, {1.0f, kInf, 2.0f}, {-kInf, -kInf, -kInf}}) {
    std::vector<float> logits = bad;
    sampler.Sample(logits, {.params = &params}, out);
    EXPECT_EQ(out.status.code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(out.top.empty());
    std::vector<float> good = {-kInf, 5.0f, -kInf};
    sampler.Sample(good, {.params = &params}, out);
    EXPECT_TRUE(out.status.ok()) << out.status;
    EXPECT_EQ(out.token, 1);
  }
}

TEST(SamplerTest, LogprobsAreThoseOfTheRawDistribution) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.4f),
                                     std::log(0.1f)};
  const std::vector<TokenId> output = {1};
  SamplingParams params;
  params.num_logprobs = 3;
  params.repetition_penalty = 1.7f;
  params.presence_penalty = 1.0f;
  params.logit_bias = {{3, 100.0f}};
  for (const float temperature : {0.0f, 0.2f, 2.0f}) {
    params.temperature = temperature;
    const SampledToken out = SampleOne(logits, {.params = &params, .output = output});
    EXPECT_EQ(out.token, 3);
    EXPECT_NEAR(out.logprob, std::log(0.1), 1e-6);
    ASSERT_EQ(out.top.size(), 3u);
    EXPECT_EQ(out.top[0].token, 1);
    EXPECT_EQ(out.top[1].token, 2);
    EXPECT_EQ(out.top[2].token, 0);
    EXPECT_NEAR(out.top[0].logprob, std::log(0.4), 1e-6);
    EXPECT_NEAR(out.top[2].logprob, std::log(0.1), 1e-6);
  }
}

TEST(SamplerTest, LogprobsOnlyWhenAsked) {
  SamplingParams params;
  SampledToken out = SampleOne({1.0f, 2.0f}, {.params = &params});
  EXPECT_EQ(out.logprob, 0.0f);
  EXPECT_TRUE(out.top.empty());
  params.num_logprobs = 0;
  out = SampleOne({1.0f, 2.0f}, {.params = &params});
  EXPECT_LT(out.logprob, 0.0f);
  EXPECT_TRUE(out.top.empty());
}

}  // namespace
}  // namespace luna::sample
