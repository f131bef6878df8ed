// Counts the allocations of the whole test program.
#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "core/sample/sampler.h"
#include "core/sample/stop_matcher.h"
#include "gtest/gtest.h"

namespace {
std::atomic<int64_t> num_allocations = 0;
}  // namespace

void* operator new(size_t size) {
  ++num_allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

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
  const int64_t before = num_allocations;
  for (uint64_t position = 1; position < 200; ++position) {
    sample(position % 2 == 0 ? plain : full, position);
  }
  EXPECT_EQ(num_allocations, before);
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
  const int64_t before = num_allocations;
  for (int i = 0; i < 100; ++i) feed();
  EXPECT_EQ(num_allocations, before);
}

}  // namespace
}  // namespace luna::sample
