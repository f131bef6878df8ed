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
#include "client/bench/result.h"
#include "client/json.h"
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
