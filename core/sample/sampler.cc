#include "core/sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/sample/random.h"

namespace luna::sample {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// The weight of the largest logit; 2^18 tokens of it still sum far below 2^64.
constexpr double kUnitWeight = 0x1p40;
constexpr double kWeighsNothing = -27.73;  // e to this, times kUnitWeight, is below 1
// Nearly every draw ends within the first few hundred candidates: those are selected in one scan,
// and only a draw from the tail pays for ordering more, eight times as many at a time.
constexpr size_t kFirstCandidates = 256;
constexpr size_t kGrowth = 8;

uint64_t Weight(float logit, float largest, double temperature) {
  const double exponent = (double{logit} - double{largest}) / temperature;
  if (exponent < kWeighsNothing) return 0;  // most of a vocabulary, without its exponential
  return static_cast<uint64_t>(std::exp(exponent) * kUnitWeight);
}

// What a logit becomes: a penalty near zero may push it over the range of float, where differences
// lose their meaning; -Inf stays what it is, a token that cannot be chosen.
float Changed(float from, float to) {
  constexpr float kLimit = std::numeric_limits<float>::max();
  return from == -kInfinity ? from : std::clamp(to, -kLimit, kLimit);
}

// False if a logit is NaN or +Inf, or none is above -Inf.
bool AreUsable(std::span<const float> logits) {
  bool below_infinity = true;
  bool any = false;
  for (const float logit : logits) {
    below_infinity &= logit < kInfinity;  // false for NaN
    any |= logit > -kInfinity;
  }
  return below_infinity && any;
}

TokenId ArgMax(std::span<const float> logits) {
  // The first of equals.
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

Sampler::Sampler(int vocab_size) : counts_(vocab_size, 0) {
  candidates_.reserve(vocab_size);
  raw_.reserve(vocab_size);
}

bool Sampler::Before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

void Sampler::Sample(std::span<float> logits, const SampleSpec& spec, SampledToken& out) {
  LUNA_CHECK_EQ(logits.size(), counts_.size());
  LUNA_CHECK(spec.params != nullptr);
  out.status = absl::OkStatus();
  out.token = 0;
  out.logprob = 0.0f;
  out.top.clear();
  if (!AreUsable(logits)) {
    out.status =
        absl::InternalError(absl::StrCat("the logits of token ", spec.position, " are not finite"));
    return;
  }
  const SamplingParams& params = *spec.params;
  if (params.num_logprobs >= 0) KeepRaw(logits, params.num_logprobs, out);
  ApplyPenalties(logits, spec);
  for (const auto& [token, bias] : params.logit_bias) {
    logits[token] = Changed(logits[token], logits[token] + bias);
  }
  for (const TokenId token : spec.masked) {
    // An end token that a model names but does not have cannot be chosen anyway.
    if (token >= 0 && static_cast<size_t>(token) < logits.size()) logits[token] = -kInfinity;
  }

  const TokenId best = ArgMax(logits);
  const float largest = logits[best];
  if (largest == -kInfinity) {
    out.status = absl::FailedPreconditionError(absl::StrCat("no token can be chosen for position ",
                                                            spec.position, ": all ", logits.size(),
                                                            " of the vocabulary are masked"));
    out.top.clear();
    return;
  }
  out.token = params.temperature == 0.0f ? best : Draw(logits, largest, spec);
  if (params.num_logprobs >= 0) {
    out.logprob = static_cast<float>(raw_[out.token] - raw_log_sum_);
  }
}

void Sampler::KeepRaw(std::span<const float> logits, int num_logprobs, SampledToken& out) {
  raw_.assign(logits.begin(), logits.end());
  const double largest = logits[ArgMax(logits)];
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  raw_log_sum_ = largest + std::log(sum);

  SelectTop(logits, num_logprobs, candidates_);
  for (const Candidate& candidate : candidates_) {
    out.top.push_back({candidate.token, static_cast<float>(candidate.value - raw_log_sum_)});
  }
}

void Sampler::ApplyPenalties(std::span<float> logits, const SampleSpec& spec) {
  const SamplingParams& params = *spec.params;
  if (params.repetition_penalty != 1.0f) {
    for (const std::span<const TokenId> tokens : {spec.prompt, spec.output}) {
      for (const TokenId token : tokens) {
        if (counts_[token]++ > 0) continue;  // once, however often it occurs
        float& logit = logits[token];
        logit = Changed(logit, logit > 0.0f ? logit / params.repetition_penalty
                                            : logit * params.repetition_penalty);
      }
    }
    for (const TokenId token : spec.prompt) counts_[token] = 0;
    for (const TokenId token : spec.output) counts_[token] = 0;
  }
  if (params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f) {
    for (const TokenId token : spec.output) ++counts_[token];
    for (const TokenId token : spec.output) {
      if (counts_[token] == 0) continue;
      const float penalty =
          params.presence_penalty + params.frequency_penalty * static_cast<float>(counts_[token]);
      logits[token] = Changed(logits[token], logits[token] - penalty);
      counts_[token] = 0;
    }
  }
}

TokenId Sampler::Draw(std::span<const float> logits, float largest, const SampleSpec& spec) {
  const SamplingParams& params = *spec.params;
  const auto weight = [&](float logit) { return Weight(logit, largest, params.temperature); };
  const auto ordered_weight = [&](size_t i) {
    if (i >= num_ordered_) OrderMore(logits);
    return weight(candidates_[i].value);
  };
  num_ordered_ = 0;
  candidates_.clear();

  const bool has_top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  const size_t limit = has_top_k ? static_cast<size_t>(params.top_k) : logits.size();
  uint64_t kept = 0;
  if (has_top_k) {
    for (size_t i = 0; i < limit; ++i) kept += ordered_weight(i);
  } else {
    for (const float logit : logits) kept += weight(logit);
  }

  if (params.top_p < 1.0f || params.min_p > 0.0f) {
    const double enough = double{params.top_p} * static_cast<double>(kept);
    const double least = double{params.min_p} * kUnitWeight;
    uint64_t sum = 0;
    for (size_t i = 0; i < limit && static_cast<double>(sum) < enough; ++i) {
      const uint64_t next = ordered_weight(i);
      if (next == 0 || static_cast<double>(next) < least) break;
      sum += next;
    }
    kept = sum;
  }

  // Below `kept`, so that the walk ends within what was kept.
  const auto target =
      static_cast<uint64_t>(double{Uniform(spec.seed, spec.position)} * static_cast<double>(kept));
  uint64_t sum = 0;
  size_t i = 0;
  while ((sum += ordered_weight(i)) <= target) ++i;
  return candidates_[i].token;
}

void Sampler::SelectTop(std::span<const float> values, size_t count, std::vector<Candidate>& out) {
  out.clear();
  if (count == 0) return;
  // A heap whose front is the last of the best so far. Ids ascend, so an equal value never enters.
  for (size_t i = 0; i < values.size(); ++i) {
    const Candidate candidate = {values[i], static_cast<TokenId>(i)};
    if (out.size() < count) {
      out.push_back(candidate);
      std::push_heap(out.begin(), out.end(), Before);
    } else if (candidate.value > out.front().value) {
      std::pop_heap(out.begin(), out.end(), Before);
      out.back() = candidate;
      std::push_heap(out.begin(), out.end(), Before);
    }
  }
  std::sort_heap(out.begin(), out.end(), Before);
}

void Sampler::OrderMore(std::span<const float> logits) {
  if (num_ordered_ == 0) {
    num_ordered_ = std::min(kFirstCandidates, logits.size());
    SelectTop(logits, num_ordered_, candidates_);
    return;
  }
  size_t from = num_ordered_;
  if (candidates_.size() < logits.size()) {
    candidates_.clear();
    for (size_t i = 0; i < logits.size(); ++i) {
      candidates_.push_back({logits[i], static_cast<TokenId>(i)});
    }
    from = 0;
  }
  num_ordered_ = std::min(num_ordered_ * kGrowth, candidates_.size());
  const auto begin = candidates_.begin() + from;
  const auto end = candidates_.begin() + num_ordered_;
  std::nth_element(begin, end, candidates_.end(), Before);
  std::sort(begin, end, Before);
}

}  // namespace luna::sample
