// Percentiles, and the timing of a stream of tokens.
#ifndef LUNA_CLIENT_LOAD_STATISTICS_H_
#define LUNA_CLIENT_LOAD_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/time/time.h"

namespace luna::load {

// Of `count` values; all zero where there is none.
struct Summary {
  size_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

// The nearest-rank percentile: the smallest value that at least `fraction` of all values do not
// exceed. `sorted` ascending and not empty, `fraction` in (0, 1].
double Percentile(const std::vector<double>& sorted, double fraction);
// The middle value; the mean of the middle two for an even count; 0 for none.
double Median(std::vector<double> values);
Summary Summarize(std::vector<double> values);
nlohmann::ordered_json ToJson(const Summary& summary);

// When the tokens of one answer arrived. A server may send several tokens in one message; a message
// of k tokens that comes g after the message before it counts as k gaps of g / k, so that the
// number of gaps and their sum do not depend on how tokens were bundled.
class StreamTiming {
 public:
  void Start(absl::Time now) { start_ = now; }
  // A message of `tokens` (> 0) new tokens.
  void Arrive(absl::Time now, uint32_t tokens);

  absl::Time start() const { return start_; }
  uint64_t tokens() const { return tokens_; }
  // Of them, those that arrived at `time` or before.
  uint64_t TokensUntil(absl::Time time) const;
  std::optional<absl::Time> first() const;
  std::optional<absl::Time> last() const;
  // From the start to the first message.
  std::optional<double> TtftMs() const;
  // Time per token after the first message: (last - first) / tokens that came after the first
  // message. None where there are none.
  std::optional<double> TpotMs() const;
  // One value per token of every message whose predecessor arrived at `from` or later.
  void AppendGapsMs(absl::Time from, std::vector<double>& gaps_ms) const;
  // The same between messages, however many tokens they carry: what a reader sees as a stall.
  void AppendMessageGapsMs(absl::Time from, std::vector<double>& gaps_ms) const;

 private:
  struct Message {
    absl::Time at;
    uint32_t tokens;
  };

  absl::Time start_ = absl::InfinitePast();
  uint64_t tokens_ = 0;
  std::vector<Message> messages_;
};

}  // namespace luna::load

#endif  // LUNA_CLIENT_LOAD_STATISTICS_H_
