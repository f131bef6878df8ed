// The figures of a benchmark for scripts and for people.
#include <algorithm>

#include "client/bench/bench.h"

namespace luna::bench {

client::Json ToJson(const Options& options, const Result& result) {
  std::vector<double> rates;
  for (const Round& round : result.rounds) rates.push_back(round.tokens_per_s);
  const double best = rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
  client::Json json = {
      {"model", result.model.name()},
      {"backend", result.model.backend()},
      {"numerics", result.model.numerics()},
      {"clients", options.clients},
      {"connections", options.connections},
      {"prompt_tokens", options.prompt_tokens},
      {"max_tokens", options.max_tokens},
      {"seed", options.seed},
      {"requests", result.requests},
      {"errors", result.errors},
      {"tokens_per_s", {{"best", best}, {"median", load::Median(rates)}, {"rounds", rates}}},
      {"ttft_ms", load::ToJson(result.ttft_ms)},
      {"itl_ms", load::ToJson(result.itl_ms)},
      {"tpot_ms", load::ToJson(result.tpot_ms)},
      {"message_gap_ms", load::ToJson(result.message_ms)},
      {"itl_percentiles_ms", result.itl_percentiles_ms}};
  if (!result.first_error.empty()) json["first_error"] = result.first_error;
  return json;
}

}  // namespace luna::bench
