// How the next token is chosen and when a generation stops. What a caller may set, and its limits.
#ifndef LUNA_CORE_SAMPLE_PARAMS_H_
#define LUNA_CORE_SAMPLE_PARAMS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/ids.h"

namespace luna::sample {

// Applied in this order: repetition penalty (prompt and output), presence and frequency penalties
// (output), bias, the min_tokens mask, temperature, top-k, top-p, min-p. The defaults do nothing.
struct SamplingParams {
  float temperature = 1.0f;         // [0, 100]; 0 is greedy, ties to the lowest id
  int64_t top_k = 0;                // >= 0; 0, or at least the vocabulary: all
  float top_p = 1.0f;               // (0, 1]
  float min_p = 0.0f;               // [0, 1]
  float repetition_penalty = 1.0f;  // (0, 100]
  float presence_penalty = 0.0f;    // [-2, 2]
  float frequency_penalty = 0.0f;   // [-2, 2]
  std::vector<std::pair<TokenId, float>> logit_bias;  // bias in [-100, 100]; at most 1024 entries
  // Log-probabilities of the raw distribution (softmax of the logits before anything above).
  // -1: none; 0: the chosen token's; n <= 20: those of the n most probable tokens too.
  int num_logprobs = -1;
};

struct StopParams {
  int64_t max_tokens = -1;        // -1: all that is left
  int64_t min_tokens = 0;         // end tokens and stop ids are masked before; stop strings wait
  std::vector<std::string> stop;  // at most 16, 1 to 256 bytes each; matched in generated text only
  std::vector<TokenId> stop_ids;  // at most 64
  bool ignore_eos = false;
};

inline constexpr int kMaxLogprobs = 20;
inline constexpr int kMaxLogitBias = 1024;
inline constexpr int kMaxStopStrings = 16;
inline constexpr int kMaxStopBytes = 256;
inline constexpr int kMaxStopIds = 64;

// INVALID_ARGUMENT names the field as in the wire contract, the value and the limit. NaN and
// infinities are refused everywhere. The message starts with "<field>: ".
absl::Status Validate(const SamplingParams& params, int vocab_size);
absl::Status Validate(const StopParams& params, int vocab_size);

}  // namespace luna::sample

#endif  // LUNA_CORE_SAMPLE_PARAMS_H_
