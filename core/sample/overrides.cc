#include "core/sample/overrides.h"

namespace luna::sample {
namespace {

template <typename T>
std::optional<T> Either(const std::optional<T>& over, const std::optional<T>& base) {
  return over.has_value() ? over : base;
}

}  // namespace

SamplingOverrides Merge(const SamplingOverrides& over, const SamplingOverrides& base) {
  return {
      .temperature = Either(over.temperature, base.temperature),
      .top_k = Either(over.top_k, base.top_k),
      .top_p = Either(over.top_p, base.top_p),
      .min_p = Either(over.min_p, base.min_p),
      .repetition_penalty = Either(over.repetition_penalty, base.repetition_penalty),
      .presence_penalty = Either(over.presence_penalty, base.presence_penalty),
      .frequency_penalty = Either(over.frequency_penalty, base.frequency_penalty),
      .logit_bias = Either(over.logit_bias, base.logit_bias),
      .seed = Either(over.seed, base.seed),
  };
}

SamplingParams Resolve(const SamplingOverrides& overrides) {
  const SamplingParams defaults;
  SamplingParams params;
  params.temperature = overrides.temperature.value_or(defaults.temperature);
  params.top_k = overrides.top_k.value_or(defaults.top_k);
  params.top_p = overrides.top_p.value_or(defaults.top_p);
  params.min_p = overrides.min_p.value_or(defaults.min_p);
  params.repetition_penalty = overrides.repetition_penalty.value_or(defaults.repetition_penalty);
  params.presence_penalty = overrides.presence_penalty.value_or(defaults.presence_penalty);
  params.frequency_penalty = overrides.frequency_penalty.value_or(defaults.frequency_penalty);
  if (overrides.logit_bias.has_value()) params.logit_bias = *overrides.logit_bias;
  return params;
}

}  // namespace luna::sample
