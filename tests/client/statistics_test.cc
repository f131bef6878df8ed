#include "client/load/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "client/bench/bench.h"

namespace luna::load {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

absl::Time At(int milliseconds) { return absl::UnixEpoch() + absl::Milliseconds(milliseconds); }

TEST(PercentileTest, IsTheNearestRank) {
  std::vector<double> values;
  for (int i = 1; i <= 10; ++i) values.push_back(i);
  EXPECT_EQ(Percentile(values, 0.5), 5);
  EXPECT_EQ(Percentile(values, 0.9), 9);
  EXPECT_EQ(Percentile(values, 0.91), 10);
  EXPECT_EQ(Percentile(values, 0.99), 10);
  EXPECT_EQ(Percentile({7}, 0.01), 7);
}

TEST(SummarizeTest, OfUnsortedValuesAndOfNone) {
  const Summary summary = Summarize({3, 1, 2, 10});
  EXPECT_EQ(summary.count, 4u);
  EXPECT_EQ(summary.mean, 4);
  EXPECT_EQ(summary.p50, 2);
  EXPECT_EQ(summary.p90, 10);
  EXPECT_EQ(summary.max, 10);
  EXPECT_EQ(Summarize({}).count, 0u);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(Median({}), 0);
}

TEST(StreamTimingTest, AMessageOfSeveralTokensIsSeveralGaps) {
  StreamTiming timing;
  timing.Start(At(0));
  timing.Arrive(At(50), 1);
  timing.Arrive(At(60), 1);
  timing.Arrive(At(90), 3);
  std::vector<double> gaps, message_gaps;
  timing.AppendGapsMs(absl::InfinitePast(), gaps);
  timing.AppendMessageGapsMs(absl::InfinitePast(), message_gaps);
  EXPECT_THAT(gaps, ElementsAre(10, 10, 10, 10));
  EXPECT_THAT(message_gaps, ElementsAre(10, 30));
  EXPECT_EQ(timing.TtftMs(), 50);
  EXPECT_EQ(timing.TpotMs(), 10);
  EXPECT_EQ(timing.tokens(), 5u);
  EXPECT_EQ(timing.TokensUntil(At(49)), 0u);
  EXPECT_EQ(timing.TokensUntil(At(60)), 2u);
  EXPECT_EQ(timing.TokensUntil(At(1000)), 5u);
}

TEST(StreamTimingTest, WithoutTokensThereIsNothing) {
  StreamTiming timing;
  timing.Start(At(0));
  EXPECT_FALSE(timing.TtftMs().has_value());
  EXPECT_FALSE(timing.TpotMs().has_value());
  timing.Arrive(At(5), 4);
  EXPECT_FALSE(timing.TpotMs().has_value());
}

TEST(BenchTest, RateIsAllTokensFromFirstRequestToLastToken) {
  std::vector<StreamTiming> timings(2);
  timings[0].Start(At(0));
  timings[0].Arrive(At(100), 1);
  timings[0].Arrive(At(400), 9);
  timings[1].Start(At(10));
  timings[1].Arrive(At(500), 10);
  const bench::Round round = bench::Measure(timings);
  EXPECT_EQ(round.tokens, 20u);
  EXPECT_THAT(round.seconds, DoubleEq(0.5));
  EXPECT_THAT(round.tokens_per_s, DoubleEq(40));
  EXPECT_EQ(bench::Measure({}).tokens_per_s, 0);
}

TEST(BenchTest, GapsCountOnceTheLastClientHasItsFirstToken) {
  std::vector<StreamTiming> timings(2);
  timings[0].Start(At(0));
  timings[0].Arrive(At(10), 1);
  timings[0].Arrive(At(100), 1);  // stalled by the other's prompt: not counted
  timings[0].Arrive(At(120), 1);
  timings[0].Arrive(At(150), 2);
  timings[1].Start(At(0));
  timings[1].Arrive(At(110), 1);
  timings[1].Arrive(At(117), 1);
  std::vector<double> gaps, message_gaps;
  bench::AppendSteadyGapsMs(timings, gaps, message_gaps);
  EXPECT_THAT(gaps, ElementsAre(15, 15, 7));
  EXPECT_THAT(message_gaps, ElementsAre(30, 7));
}

bench::Outcome OutcomeOf(std::vector<int> arrivals, bool finished = true) {
  bench::Outcome outcome;
  outcome.timing.Start(At(0));
  for (const int at : arrivals) outcome.timing.Arrive(At(at), 1);
  outcome.finished = finished;
  return outcome;
}

TEST(BenchTest, TallyKeepsWarmUpsOutAndCountsWhatFailed) {
  bench::Tally tally(3);
  EXPECT_EQ(tally.Add({OutcomeOf({1, 2, 3})}, /*counts=*/false).tokens, 3u);
  tally.Add({OutcomeOf({10, 20, 30}), OutcomeOf({10, 20, 60})}, /*counts=*/true);
  tally.Add({OutcomeOf({5, 9}), OutcomeOf({5, 9, 13}, /*finished=*/false), OutcomeOf({})},
            /*counts=*/true);
  const bench::Result result = std::move(tally).Finish();
  EXPECT_EQ(result.requests, 5);
  EXPECT_EQ(result.errors, 3);
  EXPECT_EQ(result.first_error, "2 tokens came; 3 were asked");
  EXPECT_EQ(result.rounds.size(), 2u);
  EXPECT_EQ(result.ttft_ms.count, 4u);
  EXPECT_EQ(result.itl_ms.count, 7u);
  ASSERT_EQ(result.itl_percentiles_ms.size(), 101u);
  EXPECT_EQ(result.itl_percentiles_ms.front(), 4);
  EXPECT_EQ(result.itl_percentiles_ms[50], 10);
  EXPECT_EQ(result.itl_percentiles_ms.back(), 40);
}

TEST(BenchTest, PromptsAreRandomRepeatableAndWithoutControlTokens) {
  v1::GetModelResponse model;
  model.set_vocab_size(1600);
  model.add_end_ids(800);
  const auto prompt = bench::RandomPrompt(model, 5000, 1, 0, 0);
  ASSERT_EQ(prompt.size(), 5000u);
  for (const uint32_t id : prompt) {
    EXPECT_GE(id, 100u);
    EXPECT_LT(id, 1500u);
    EXPECT_NE(id, 800u);
  }
  EXPECT_EQ(prompt, bench::RandomPrompt(model, 5000, 1, 0, 0));
  EXPECT_NE(prompt, bench::RandomPrompt(model, 5000, 2, 0, 0));
  EXPECT_NE(prompt, bench::RandomPrompt(model, 5000, 1, 1, 0));
  EXPECT_NE(prompt, bench::RandomPrompt(model, 5000, 1, 0, 1));
}

TEST(BenchTest, JsonHasTheKeysThatScriptsRead) {
  bench::Result result;
  result.requests = 6;
  result.errors = 1;
  for (const double rate : {100.0, 300.0, 200.0}) result.rounds.push_back({rate, 10, 1});
  result.ttft_ms = Summarize({5});
  const client::Json json = bench::ToJson(bench::Options{}, result);
  EXPECT_EQ(json["requests"], 6);
  EXPECT_EQ(json["errors"], 1);
  EXPECT_EQ(json["tokens_per_s"]["best"], 300.0);
  EXPECT_EQ(json["tokens_per_s"]["median"], 200.0);
  for (const char* name : {"ttft_ms", "itl_ms", "tpot_ms"}) {
    for (const char* key : {"p50", "p90", "p99", "max"}) {
      EXPECT_TRUE(json[name][key].is_number()) << name << " " << key;
    }
  }
  EXPECT_EQ(json["ttft_ms"]["p99"], 5.0);
}

}  // namespace
}  // namespace luna::load
