#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/sample/sampler.h"
#include "core/sample/stop_matcher.h"
#include "gtest/gtest.h"
#include "tests/fakes/allocation_counter.h"

namespace luna::sample {
namespace {

TEST(SamplerAllocationTest, ASteadyStateAllocatesNothing) {
  constexpr int kVocab = 5000;
  SamplingParams plain, full;
  full.top_k = 3000;
  full.top_p = 0.999f;
  full.min_p = 1e-6f;
  full.repetition_penalty = 1.1f;
  full.frequency_penalty = 0.1f;
  full.logit_bias = {{3, 1.0f}};
  full.num_logprobs = 20;
  const std::vector<TokenId> tokens = {1, 2, 3, 3};
  std::mt19937 random(1);
  std::vector<float> logits(kVocab), copy(kVocab);
  for (float& logit : logits) logit = std::normal_distribution<float>(0.0f, 1.0f)(random);

  Sampler sampler(kVocab);
  SampledToken out;
  const auto sample = [&](const SamplingParams& params, uint64_t position) {
    std::copy(logits.begin(), logits.end(), copy.begin());
    sampler.Sample(copy,
                   {.params = &params,
                    .position = position,
                    .prompt = tokens,
                    .output = tokens,
                    .masked = tokens},
                   out);
    ASSERT_TRUE(out.status.ok());
  };
  sample(full, 0);
  const int64_t before = AllocationCount();
  for (uint64_t position = 1; position < 200; ++position) {
    sample(position % 2 == 0 ? plain : full, position);
  }
  EXPECT_EQ(AllocationCount(), before);
}

TEST(StopMatcherAllocationTest, ASteadyStateAllocatesNothing) {
  const std::vector<std::string> stops = {std::string(40, '-'), "END"};
  StopMatcher matcher(stops);
  std::string out;
  out.reserve(10'000);
  const auto feed = [&] {
    matcher.Append("------------------------", true, out);
    matcher.Append(" a word that is no stop ", true, out);
  };
  feed();
  const int64_t before = AllocationCount();
  for (int i = 0; i < 100; ++i) feed();
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace luna::sample
