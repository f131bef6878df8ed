#include "core/sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
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

// The same rules once more, in the plainest way: everything in double, everything sorted.
struct NaiveChoice {
  TokenId token = -1;
  bool is_clear = true;  // no comparison on the way was close enough for rounding to turn it
};

std::vector<double> NaiveLogits(const std::vector<float>& logits, const SampleSpec& spec) {
  const SamplingParams& params = *spec.params;
  std::vector<double> values(logits.begin(), logits.end());
  std::set<TokenId> seen(spec.prompt.begin(), spec.prompt.end());
  seen.insert(spec.output.begin(), spec.output.end());
  for (const TokenId token : seen) {
    values[token] = values[token] > 0 ? values[token] / params.repetition_penalty
                                      : values[token] * params.repetition_penalty;
  }
  for (const TokenId token : std::set<TokenId>(spec.output.begin(), spec.output.end())) {
    values[token] -=
        params.presence_penalty + static_cast<double>(params.frequency_penalty) *
                                      std::count(spec.output.begin(), spec.output.end(), token);
  }
  for (const auto& [token, bias] : params.logit_bias) values[token] += bias;
  for (const TokenId token : spec.masked) values[token] = -kInf;
  return values;
}

NaiveChoice ChooseNaively(const std::vector<float>& logits, const SampleSpec& spec) {
  constexpr double kClose = 1e-6;
  const SamplingParams& params = *spec.params;
  const std::vector<double> values = NaiveLogits(logits, spec);
  std::vector<TokenId> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return values[a] > values[b]; });
  NaiveChoice choice;
  if (params.temperature == 0.0f) {
    choice.token = order[0];
    const double gap = values[order[0]] - values[order[1]];
    choice.is_clear = gap == 0 || gap > kClose;
    return choice;
  }
  if (params.top_k > 0 && params.top_k < static_cast<int64_t>(order.size())) {
    const double gap = values[order[params.top_k - 1]] - values[order[params.top_k]];
    choice.is_clear &= gap == 0 || gap > kClose;
    order.resize(params.top_k);
  }
  std::vector<double> weights;
  for (const TokenId token : order) {
    weights.push_back(std::exp((values[token] - values[order[0]]) / params.temperature));
  }
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (params.top_p < 1.0f) {
    double sum = 0.0;
    size_t end = 0;
    while (end < weights.size() && sum < params.top_p * total) {
      sum += weights[end++];
      choice.is_clear &= std::abs(sum / total - params.top_p) > kClose;
    }
    weights.resize(end);
  }
  while (weights.back() < params.min_p) weights.pop_back();
  for (const double weight : weights) {
    choice.is_clear &= params.min_p == 0.0f || std::abs(weight - params.min_p) > kClose;
  }
  total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double target = Uniform(spec.seed, spec.position) * total;
  double sum = 0.0;
  for (size_t i = 0; i < weights.size() && choice.token < 0; ++i) {
    sum += weights[i];
    choice.is_clear &= std::abs(sum - target) / total > kClose;
    if (sum > target) choice.token = order[i];
  }
  return choice;
}

std::vector<float> RandomLogits(int vocab_size, float spread, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(vocab_size);
  for (float& logit : logits) logit = normal(random);
  // Ties, and tokens that cannot be chosen.
  for (int i = 0; i < vocab_size / 8; ++i) {
    logits[random() % vocab_size] = logits[random() % vocab_size];
  }
  logits[random() % vocab_size] = -kInf;
  return logits;
}

template <typename T>
T OneOf(const std::vector<T>& values, std::mt19937& random) {
  return values[random() % values.size()];
}

SamplingParams RandomParams(int vocab_size, std::mt19937& random) {
  SamplingParams params;
  params.temperature = OneOf<float>({0.0f, 0.2f, 0.8f, 1.0f, 1.0f, 2.0f, 100.0f}, random);
  params.top_k = OneOf<int64_t>({0, 0, 1, 2, 40, 300, 1000, 1'000'000}, random);
  params.top_p = OneOf<float>({1.0f, 1.0f, 0.95f, 0.5f, 0.999f, 1e-6f}, random);
  params.min_p = OneOf<float>({0.0f, 0.0f, 0.02f, 0.3f, 1.0f}, random);
  params.repetition_penalty = OneOf<float>({1.0f, 1.0f, 1.3f, 0.7f}, random);
  params.presence_penalty = OneOf<float>({0.0f, 0.0f, 1.5f, -2.0f}, random);
  params.frequency_penalty = OneOf<float>({0.0f, 0.0f, 0.4f, -0.1f}, random);
  const int num_biases = OneOf<int>({0, 0, 3}, random);
  for (int i = 0; i < num_biases; ++i) {
    params.logit_bias.emplace_back(random() % vocab_size, OneOf<float>({-100.0f, 3.0f}, random));
  }
  return params;
}

std::vector<TokenId> RandomTokens(int count, int vocab_size, std::mt19937& random) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab_size);
  return tokens;
}

// [vocabulary size, number of cases]; the larger ones order more than the first candidates.
class SamplerAgainstNaiveTest : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(SamplerAgainstNaiveTest, ChoosesTheSame) {
  const auto [vocab_size, num_cases] = GetParam();
  std::mt19937 random(20240501 + vocab_size);
  Sampler sampler(vocab_size);
  SampledToken out;
  int compared = 0;
  for (int i = 0; i < num_cases; ++i) {
    const std::vector<float> logits =
        RandomLogits(vocab_size, OneOf<float>({0.1f, 1.0f, 3.0f, 8.0f}, random), random);
    const SamplingParams params = RandomParams(vocab_size, random);
    const auto prompt = RandomTokens(20, vocab_size, random);
    const auto output = RandomTokens(OneOf<int>({0, 30}, random), std::min(vocab_size, 40), random);
    const auto masked = RandomTokens(OneOf<int>({0, 2}, random), vocab_size, random);
    const SampleSpec spec = {.params = &params,
                             .seed = random(),
                             .position = random() % 1000,
                             .prompt = prompt,
                             .output = output,
                             .masked = masked};
    const NaiveChoice expected = ChooseNaively(logits, spec);
    std::vector<float> copy = logits;
    sampler.Sample(copy, spec, out);
    ASSERT_TRUE(out.status.ok()) << out.status;
    if (!expected.is_clear) continue;
    ++compared;
    ASSERT_EQ(out.token, expected.token)
        << "case " << i << " temperature " << params.temperature << " top_k " << params.top_k
        << " top_p " << params.top_p << " min_p " << params.min_p;
  }
  EXPECT_GT(compared, num_cases * 8 / 10);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, SamplerAgainstNaiveTest,
                         ::testing::Values(std::pair{7, 3000}, std::pair{256, 1000},
                                           std::pair{257, 1000}, std::pair{4096, 400},
                                           std::pair{49152, 40}));

// Every seventh candidate of a flat distribution lies far behind the first few hundred.
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

TEST(SamplerTest, AskingForLogprobsDoesNotChangeTheChoice) {
  std::mt19937 random(5);
  const std::vector<float> logits = RandomLogits(1000, 2.0f, random);
  for (uint64_t position = 0; position < 50; ++position) {
    SamplingParams params;
    const TokenId plain = SampleOne(logits, {.params = &params, .position = position}).token;
    params.num_logprobs = 20;
    EXPECT_EQ(SampleOne(logits, {.params = &params, .position = position}).token, plain);
  }
}

TEST(SamplerTest, OneCallLeavesNothingForTheNext) {
  std::mt19937 random(6);
  Sampler reused(300);
  SampledToken out;
  for (int i = 0; i < 300; ++i) {
    const std::vector<float> logits = RandomLogits(300, 1.0f, random);
    SamplingParams params = RandomParams(300, random);
    params.num_logprobs = OneOf<int>({-1, 0, 5}, random);
    const auto prompt = RandomTokens(10, 300, random), output = RandomTokens(10, 300, random);
    const SampleSpec spec = {
        .params = &params, .seed = random(), .prompt = prompt, .output = output};
    std::vector<float> copy = logits;
    reused.Sample(copy, spec, out);
    const SampledToken fresh = SampleOne(logits, spec);
    EXPECT_EQ(out.token, fresh.token);
    EXPECT_EQ(out.logprob, fresh.logprob);
    EXPECT_EQ(out.top.size(), fresh.top.size());
  }
}

}  // namespace
}  // namespace luna::sample
