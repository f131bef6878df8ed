#include "client/load/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/check.h"

namespace luna::load {

double Percentile(const std::vector<double>& sorted, double fraction) {
  LUNA_CHECK(!sorted.empty() && fraction > 0 && fraction <= 1) << "fraction " << fraction;
  // A product such as 0.9 * 10 may come out a hair above its integer.
  const double rank = std::ceil(fraction * static_cast<double>(sorted.size()) - 1e-9);
  const size_t index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

Summary Summarize(std::vector<double> values) {
  Summary summary;
  summary.count = values.size();
  if (values.empty()) return summary;
  std::sort(values.begin(), values.end());
  summary.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  summary.p50 = Percentile(values, 0.50);
  summary.p90 = Percentile(values, 0.90);
  summary.p99 = Percentile(values, 0.99);
  summary.max = values.back();
  return summary;
}

nlohmann::ordered_json ToJson(const Summary& summary) {
  return {{"count", summary.count}, {"mean", summary.mean}, {"p50", summary.p50},
          {"p90", summary.p90},     {"p99", summary.p99},   {"max", summary.max}};
}

void StreamTiming::Arrive(absl::Time now, uint32_t tokens) {
  LUNA_CHECK(tokens > 0) << "a message without tokens has no timing";
  messages_.push_back({now, tokens});
  tokens_ += tokens;
}

uint64_t StreamTiming::TokensUntil(absl::Time time) const {
  uint64_t tokens = 0;
  for (const Message& message : messages_) {
    if (message.at <= time) tokens += message.tokens;
  }
  return tokens;
}

std::optional<absl::Time> StreamTiming::first() const {
  if (messages_.empty()) return std::nullopt;
  return messages_.front().at;
}

std::optional<absl::Time> StreamTiming::last() const {
  if (messages_.empty()) return std::nullopt;
  return messages_.back().at;
}

std::optional<double> StreamTiming::TtftMs() const {
  if (messages_.empty()) return std::nullopt;
  return absl::ToDoubleMilliseconds(messages_.front().at - start_);
}

std::optional<double> StreamTiming::TpotMs() const {
  if (messages_.size() < 2) return std::nullopt;
  const double span_ms = absl::ToDoubleMilliseconds(messages_.back().at - messages_.front().at);
  return span_ms / static_cast<double>(tokens_ - messages_.front().tokens);
}

void StreamTiming::AppendGapsMs(absl::Time from, std::vector<double>& gaps_ms) const {
  for (size_t i = 1; i < messages_.size(); ++i) {
    if (messages_[i - 1].at < from) continue;
    const double gap_ms = absl::ToDoubleMilliseconds(messages_[i].at - messages_[i - 1].at);
    gaps_ms.insert(gaps_ms.end(), messages_[i].tokens, gap_ms / messages_[i].tokens);
  }
}

void StreamTiming::AppendMessageGapsMs(absl::Time from, std::vector<double>& gaps_ms) const {
  for (size_t i = 1; i < messages_.size(); ++i) {
    if (messages_[i - 1].at < from) continue;
    gaps_ms.push_back(absl::ToDoubleMilliseconds(messages_[i].at - messages_[i - 1].at));
  }
}

}  // namespace luna::load
