#include "core/sample/overrides.h"

namespace luna::sample {
namespace {

template <typename T>
void FillIn(std::optional<T>& value, const std::optional<T>& base) {
  if (!value.has_value()) value = base;
}

}  // namespace

SamplingOverrides Merge(const SamplingOverrides& over, const SamplingOverrides& base) {
  SamplingOverrides merged = over;
  FillIn(merged.temperature, base.temperature);
  FillIn(merged.top_k, base.top_k);
  FillIn(merged.top_p, base.top_p);
  FillIn(merged.min_p, base.min_p);
  FillIn(merged.repetition_penalty, base.repetition_penalty);
  FillIn(merged.presence_penalty, base.presence_penalty);
  FillIn(merged.frequency_penalty, base.frequency_penalty);
  FillIn(merged.logit_bias, base.logit_bias);
  FillIn(merged.seed, base.seed);
  return merged;
}

SamplingParams Resolve(const SamplingOverrides& overrides) {
  SamplingParams params;
  params.temperature = overrides.temperature.value_or(params.temperature);
  params.top_k = overrides.top_k.value_or(params.top_k);
  params.top_p = overrides.top_p.value_or(params.top_p);
  params.min_p = overrides.min_p.value_or(params.min_p);
  params.repetition_penalty = overrides.repetition_penalty.value_or(params.repetition_penalty);
  params.presence_penalty = overrides.presence_penalty.value_or(params.presence_penalty);
  params.frequency_penalty = overrides.frequency_penalty.value_or(params.frequency_penalty);
  if (overrides.logit_bias.has_value()) params.logit_bias = *overrides.logit_bias;
  return params;
}

}  // namespace luna::sample
