#include "client/bench/result.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/status.h"

namespace luna::bench {
namespace {

std::string WhyFailed(const Outcome& outcome, int max_tokens) {
  if (!outcome.status.ok()) return client::Describe(outcome.status);
  if (!outcome.finished) return "the stream ended without a finish";
  if (outcome.timing.tokens() != static_cast<uint64_t>(max_tokens)) {
    return absl::StrCat(outcome.timing.tokens(), " tokens came; ", max_tokens, " were asked");
  }
  return "";
}

std::vector<double> Percentiles(std::vector<double> values) {
  std::vector<double> percentiles;
  if (values.empty()) return percentiles;
  std::sort(values.begin(), values.end());
  percentiles.push_back(values.front());
  for (int percent = 1; percent <= 100; ++percent) {
    percentiles.push_back(load::Percentile(values, percent / 100.0));
  }
  return percentiles;
}

}  // namespace

Round Tally::Add(std::vector<Outcome> outcomes, bool counts) {
  std::vector<load::StreamTiming> timings;
  for (Outcome& outcome : outcomes) {
    const std::string why = WhyFailed(outcome, max_tokens_);
    if (counts) ++result_.requests;
    if (counts && !why.empty()) {
      ++result_.errors;
      if (result_.first_error.empty()) result_.first_error = why;
    }
    if (outcome.timing.tokens() > 0) timings.push_back(std::move(outcome.timing));
  }
  const Round measured = Measure(timings);
  if (!counts) return measured;
  result_.rounds.push_back(measured);
  for (const auto& timing : timings) {
    ttft_ms_.push_back(*timing.TtftMs());
    if (const auto tpot = timing.TpotMs()) tpot_ms_.push_back(*tpot);
  }
  AppendSteadyGapsMs(timings, itl_ms_, message_ms_);
  return measured;
}

Result Tally::Finish() && {
  result_.itl_percentiles_ms = Percentiles(itl_ms_);
  result_.ttft_ms = load::Summarize(std::move(ttft_ms_));
  result_.itl_ms = load::Summarize(std::move(itl_ms_));
  result_.tpot_ms = load::Summarize(std::move(tpot_ms_));
  result_.message_ms = load::Summarize(std::move(message_ms_));
  return std::move(result_);
}

Round Measure(const std::vector<load::StreamTiming>& timings) {
  Round round;
  absl::Time start = absl::InfiniteFuture();
  absl::Time end = absl::InfinitePast();
  for (const auto& timing : timings) {
    round.tokens += timing.tokens();
    start = std::min(start, timing.start());
    end = std::max(end, *timing.last());
  }
  if (round.tokens == 0) return round;
  round.seconds = absl::ToDoubleSeconds(end - start);
  if (round.seconds > 0) round.tokens_per_s = static_cast<double>(round.tokens) / round.seconds;
  return round;
}

void AppendSteadyGapsMs(const std::vector<load::StreamTiming>& timings,
                        std::vector<double>& token_gaps_ms, std::vector<double>& message_gaps_ms) {
  absl::Time all_started = absl::InfinitePast();
  for (const auto& timing : timings) all_started = std::max(all_started, *timing.first());
  for (const auto& timing : timings) {
    timing.AppendGapsMs(all_started, token_gaps_ms);
    timing.AppendMessageGapsMs(all_started, message_gaps_ms);
  }
}

}  // namespace luna::bench
