// The reference sampler: what every backend's own sampling must equal, bit for bit in its choice.
//
// After penalties, bias and mask a token of logit l weighs exp((l - largest) / temperature), cut
// down to a multiple of 2^-40. Sums of weights are therefore exact integers, the same in whatever
// order they are taken. Candidates stand in descending order of their logits, ties by ascending id;
// top-k, top-p (the shortest prefix whose share of what top-k kept reaches it) and min-p (weights
// of at least min_p times the first's) keep a prefix of that order. The choice is the first
// candidate whose running sum exceeds Uniform(seed, position) times the sum of all that were kept.
#ifndef LUNA_CORE_SAMPLE_SAMPLER_H_
#define LUNA_CORE_SAMPLE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/base/ids.h"
#include "core/sample/params.h"

namespace luna::sample {

// Everything the choice of one token depends on. Borrows; valid until the step was collected.
struct SampleSpec {
  int row = 0;  // index into the step's tokens: the one whose logits are sampled
  const SamplingParams* params = nullptr;
  uint64_t seed = 0;
  uint64_t position = 0;                 // absolute index of the new token: the RNG's counter
  std::span<const TokenId> prompt = {};  // tokens before the generated ones (for the penalties)
  std::span<const TokenId> output = {};  // generated so far
  std::span<const TokenId> masked = {};  // may not be chosen (min_tokens)
  // Not -1: a further token follows `output`, the one that sample of the step before chooses (see
  // batch::Batch). The reference sampler knows of none.
  int pending = -1;
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0f;
};

struct SampledToken {
  absl::Status status;  // not OK: this row has no token (its logits were not finite)
  TokenId token = 0;
  float logprob = 0.0f;           // raw distribution; 0 unless asked for
  std::vector<TokenLogprob> top;  // most probable first, ties to the lowest id; empty unless asked
};

// Owned by one thread of a backend; keeps its scratch between calls, so that a steady state
// allocates nothing.
class Sampler {
 public:
  explicit Sampler(int vocab_size);

  // `logits` [vocab_size], overwritten. `out` is reused. Statuses: INTERNAL if a logit is NaN or
  // +Inf or all are -Inf (a single -Inf is a token that cannot be chosen); FAILED_PRECONDITION if
  // what could be chosen is all masked.
  void Sample(std::span<float> logits, const SampleSpec& spec, SampledToken& out);

 private:
  struct Candidate {
    float value;
    TokenId token;
  };

  static bool Before(const Candidate& a, const Candidate& b);
  // The first `count` of the descending order of `values`, sorted.
  static void SelectTop(std::span<const float> values, size_t count, std::vector<Candidate>& out);

  void KeepRaw(std::span<const float> logits, int num_logprobs, SampledToken& out);
  void ApplyPenalties(std::span<float> logits, const SampleSpec& spec);
  TokenId Draw(std::span<const float> logits, float largest, const SampleSpec& spec);
  // Makes num_ordered_ several times larger, at most the vocabulary.
  void OrderMore(std::span<const float> logits);

  std::vector<Candidate> candidates_;  // at most vocab_size
  size_t num_ordered_ = 0;             // candidates_[0, num_ordered_) begin the descending order
  std::vector<int32_t> counts_;        // [vocab_size] occurrences, all zero between calls
  std::vector<float> raw_;             // [vocab_size] logits as they came, where they are asked for
  double raw_log_sum_ = 0.0;           // log of the sum of exp(raw_)
};

}  // namespace luna::sample

#endif  // LUNA_CORE_SAMPLE_SAMPLER_H_
