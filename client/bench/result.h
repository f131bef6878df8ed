// The figures of rounds of clients, whichever server answered them.
#ifndef LUNA_CLIENT_BENCH_RESULT_H_
#define LUNA_CLIENT_BENCH_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/load/statistics.h"
#include "luna/v1/inference.pb.h"

namespace luna::bench {

// What became of one client's request in one round.
struct Outcome {
  load::StreamTiming timing;
  absl::Status status;
  bool finished = false;  // the server said that the answer is complete
};

// Of one round. Gaps are taken once every client has its first token: the steady batch, without the
// others' prompts.
struct Round {
  double tokens_per_s = 0;  // all tokens over the time from the first request to the last token
  uint64_t tokens = 0;
  double seconds = 0;
};

struct Result {
  v1::GetModelResponse model;
  int requests = 0;  // of the counted rounds
  int errors = 0;
  std::string first_error;
  std::vector<Round> rounds;
  load::Summary ttft_ms;
  load::Summary itl_ms;      // between tokens, see load::StreamTiming
  load::Summary tpot_ms;     // per request
  load::Summary message_ms;  // between messages
  // The whole distribution: [101], from the smallest to the largest gap between tokens in steps of
  // one percent; empty where there are none.
  std::vector<double> itl_percentiles_ms;
};

// Turns outcomes into a Result. Not thread-safe.
class Tally {
 public:
  // A request for other than `max_tokens` tokens counts as an error.
  explicit Tally(int max_tokens) : max_tokens_(max_tokens) {}

  // One round; one that does not count (a warm-up) is only measured.
  Round Add(std::vector<Outcome> outcomes, bool counts);
  // Everything but the model. Once, at the end.
  Result Finish() &&;

 private:
  const int max_tokens_;
  Result result_;
  std::vector<double> ttft_ms_, tpot_ms_, itl_ms_, message_ms_;
};

// What a round brought: one timing per client that got a token.
Round Measure(const std::vector<load::StreamTiming>& timings);
// The gaps of a round, from the last client's first token on.
void AppendSteadyGapsMs(const std::vector<load::StreamTiming>& timings,
                        std::vector<double>& token_gaps_ms, std::vector<double>& message_gaps_ms);

}  // namespace luna::bench

#endif  // LUNA_CLIENT_BENCH_RESULT_H_
