// Sampling parameters of which only some are said: a request's over its session's over the
// defaults.
#ifndef LUNA_CORE_SAMPLE_OVERRIDES_H_
#define LUNA_CORE_SAMPLE_OVERRIDES_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/sample/params.h"

namespace luna::sample {

struct SamplingOverrides {
  std::optional<float> temperature;
  std::optional<int64_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<std::vector<std::pair<TokenId, float>>> logit_bias;  // as a whole
  std::optional<uint64_t> seed;
};

// What `over` says, else what `base` says. Limits hold field by field, so two valid ones stay
// valid.
SamplingOverrides Merge(const SamplingOverrides& over, const SamplingOverrides& base);

// The defaults with what `overrides` says; `seed` is not part of it.
SamplingParams Resolve(const SamplingOverrides& overrides);

}  // namespace luna::sample

#endif  // LUNA_CORE_SAMPLE_OVERRIDES_H_
