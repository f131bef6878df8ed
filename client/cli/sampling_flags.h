// The flags that say how an answer is made and when it ends. Their ranges are the server's to
// check: it names field, value and limit.
#ifndef LUNA_CLIENT_CLI_SAMPLING_FLAGS_H_
#define LUNA_CLIENT_CLI_SAMPLING_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "luna/v1/types.pb.h"

namespace luna::cli {

struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p;
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<uint32_t> top_k;
  std::vector<std::string> logit_bias;  // "ID=BIAS", checked when parsed
  std::optional<uint64_t> seed;
  std::optional<uint32_t> max_tokens, min_tokens;
  std::vector<std::string> stop;
  std::vector<uint32_t> stop_ids;
  bool ignore_eos = false;

  // What is set before is the command's default, and told as such.
  void Add(CLI::App* command);
  // Fields whose flag was not given stay unset.
  v1::SamplingParams Sampling() const;
  v1::StoppingParams Stopping() const;
};

// "ID=BIAS" as its two numbers; none if it is not that.
std::optional<std::pair<uint32_t, float>> ParseLogitBias(const std::string& text);

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_SAMPLING_FLAGS_H_
