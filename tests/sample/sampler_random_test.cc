// The sampler over random logits and parameters, against the same rules written in the plainest
// way.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/sample/random.h"
#include "core/sample/sampler.h"
#include "gtest/gtest.h"

namespace luna::sample {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Everything in double, everything sorted.
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

SampledToken SampleOne(std::vector<float> logits, const SampleSpec& spec) {
  Sampler sampler(static_cast<int>(logits.size()));
  SampledToken out;
  sampler.Sample(logits, spec, out);
  return out;
}

TEST(SamplerRandomTest, AskingForLogprobsDoesNotChangeTheChoice) {
  std::mt19937 random(5);
  const std::vector<float> logits = RandomLogits(1000, 2.0f, random);
  for (uint64_t position = 0; position < 50; ++position) {
    SamplingParams params;
    const TokenId plain = SampleOne(logits, {.params = &params, .position = position}).token;
    params.num_logprobs = 20;
    EXPECT_EQ(SampleOne(logits, {.params = &params, .position = position}).token, plain);
  }
}

TEST(SamplerRandomTest, OneCallLeavesNothingForTheNext) {
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
