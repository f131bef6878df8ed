// The load client: rounds of clients that all start together and read as fast as they can, on one
// thread, so that it takes little from a server on the same machine.
#ifndef LUNA_CLIENT_BENCH_BENCH_H_
#define LUNA_CLIENT_BENCH_BENCH_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/json.h"
#include "client/load/statistics.h"
#include "luna/v1/inference.pb.h"

namespace luna::bench {

struct Options {
  std::string server;
  int clients = 30;
  int prompt_tokens = 128;
  int max_tokens = 128;
  int rounds = 3;
  int warmup = 1;  // rounds before, which are not counted
  uint64_t seed = 1;
  int connections = 1;  // TCP connections; clients take them in turn
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
};

// What a round brought: one timing per client that got a token.
Round Measure(const std::vector<load::StreamTiming>& timings);
// The gaps of a round, from the last client's first token on.
void AppendSteadyGapsMs(const std::vector<load::StreamTiming>& timings,
                        std::vector<double>& token_gaps_ms, std::vector<double>& message_gaps_ms);

// Prompts of random ids, the same for the same seed; different for every client and round. The
// outer sixteenths of the vocabulary, where the known families keep their control tokens, and the
// end tokens are left out.
std::vector<uint32_t> RandomPrompt(const v1::GetModelResponse& model, int num_tokens, uint64_t seed,
                                   int round, int client);

// Runs all rounds; `on_round` (may be null) is told after each, warm-up included. An error where
// the server cannot be asked or the options do not fit the model; errors of single requests are
// counted instead.
absl::StatusOr<Result> Run(const Options& options,
                           const std::function<void(int round, const Round&)>& on_round);

client::Json ToJson(const Options& options, const Result& result);

}  // namespace luna::bench

#endif  // LUNA_CLIENT_BENCH_BENCH_H_
