#include "core/sample/overrides.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::sample {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

const SamplingOverrides kAll = {.temperature = 0.5f,
                                .top_k = 7,
                                .top_p = 0.25f,
                                .min_p = 0.125f,
                                .repetition_penalty = 1.5f,
                                .presence_penalty = -1.0f,
                                .frequency_penalty = 2.0f,
                                .logit_bias = {{{3, 4.0f}}},
                                .seed = 9};

void ExpectAll(const SamplingParams& params) {
  EXPECT_EQ(params.temperature, 0.5f);
  EXPECT_EQ(params.top_k, 7);
  EXPECT_EQ(params.top_p, 0.25f);
  EXPECT_EQ(params.min_p, 0.125f);
  EXPECT_EQ(params.repetition_penalty, 1.5f);
  EXPECT_EQ(params.presence_penalty, -1.0f);
  EXPECT_EQ(params.frequency_penalty, 2.0f);
  EXPECT_THAT(params.logit_bias, ElementsAre(Pair(3, 4.0f)));
}

TEST(OverridesTest, EachFieldIsTakenFromWhereItIsSaid) {
  ExpectAll(Resolve(kAll));
  ExpectAll(Resolve(Merge(kAll, {})));
  ExpectAll(Resolve(Merge({}, kAll)));
  EXPECT_EQ(Merge({}, kAll).seed, 9u);
}

TEST(OverridesTest, NothingSaidLeavesTheDefaults) {
  const SamplingParams params = Resolve(Merge({}, {}));
  EXPECT_EQ(params.temperature, 1.0f);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_EQ(params.top_p, 1.0f);
  EXPECT_EQ(params.repetition_penalty, 1.0f);
  EXPECT_THAT(params.logit_bias, IsEmpty());
}

TEST(OverridesTest, ZeroAndEmptyAreSaid) {
  SamplingOverrides over;
  over.temperature = 0.0f;
  over.top_k = 0;
  over.logit_bias.emplace();
  over.seed = 0;
  const SamplingOverrides merged = Merge(over, kAll);
  EXPECT_EQ(Resolve(merged).temperature, 0.0f);
  EXPECT_EQ(Resolve(merged).top_k, 0);
  EXPECT_THAT(Resolve(merged).logit_bias, IsEmpty());
  EXPECT_EQ(merged.seed, 0u);
  EXPECT_EQ(Resolve(merged).top_p, 0.25f);
}

}  // namespace
}  // namespace luna::sample
