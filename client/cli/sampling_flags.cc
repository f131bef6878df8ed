#include "client/cli/sampling_flags.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "client/cli/number.h"

namespace luna::cli {

std::optional<std::pair<uint32_t, float>> ParseLogitBias(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size()) return std::nullopt;
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + equals, id);
  if (error != std::errc() || end != text.data() + equals) return std::nullopt;
  char* bias_end = nullptr;
  const float bias = std::strtof(text.c_str() + equals + 1, &bias_end);
  if (*bias_end != '\0') return std::nullopt;
  return std::make_pair(id, bias);
}

namespace {

// The command's own default if it has one, else what happens without the flag.
template <typename T>
std::string Default(const std::optional<T>& value, std::string_view otherwise) {
  return value ? absl::StrCat("; default ", *value) : std::string(otherwise);
}

}  // namespace

void SamplingFlags::Add(CLI::App* command) {
  const char* const sampling = "Sampling";
  command
      ->add_option("--temperature", temperature,
                   "0 is greedy" + Default(temperature, "; the server's default is 1"))
      ->group(sampling);
  command->add_option("--top-k", top_k, "Only the K most probable tokens; 0: all")
      ->transform(Whole<uint32_t>())
      ->group(sampling);
  command
      ->add_option("--top-p", top_p,
                   "Only the most probable tokens that sum up to P" + Default(top_p, ""))
      ->group(sampling);
  command->add_option("--min-p", min_p, "Only tokens at least P times as probable as the first")
      ->group(sampling);
  command
      ->add_option("--repetition-penalty", repetition_penalty,
                   "Divides the logits of tokens seen before; 1: off")
      ->group(sampling);
  command
      ->add_option("--presence-penalty", presence_penalty,
                   "Subtracted for tokens that the answer has")
      ->group(sampling);
  command
      ->add_option("--frequency-penalty", frequency_penalty,
                   "Subtracted for every time the answer has the token")
      ->group(sampling);
  command->add_option("--logit-bias", logit_bias, "Added to the logit of token ID; repeatable")
      ->type_name("ID=BIAS")
      ->allow_extra_args(false)
      ->check(
          [](const std::string& text) {
            return ParseLogitBias(text).has_value() ? "" : "'" + text + "' is not ID=BIAS";
          },
          "")
      ->group(sampling);
  command
      ->add_option("--seed", seed, "The same seed gives the same words; unset: the server's choice")
      ->transform(Whole<uint64_t>())
      ->group(sampling);
  const char* const stopping = "Stopping";
  command
      ->add_option("--max-tokens", max_tokens,
                   "Of an answer" + Default(max_tokens, "; unset: all that is left"))
      ->transform(Whole<uint32_t>())
      ->group(stopping);
  command->add_option("--min-tokens", min_tokens, "No end before")
      ->transform(Whole<uint32_t>())
      ->group(stopping);
  command->add_option("--stop", stop, "Ends the answer where this text comes; repeatable")
      ->allow_extra_args(false)
      ->group(stopping);
  command->add_option("--stop-id", stop_ids, "Ends the answer at this token; repeatable")
      ->transform(Whole<uint32_t>())
      ->allow_extra_args(false)
      ->group(stopping);
  command->add_flag("--ignore-eos", ignore_eos, "The model's end tokens do not end the answer")
      ->group(stopping);
}

v1::SamplingParams SamplingFlags::Sampling() const {
  v1::SamplingParams params;
  if (temperature) params.set_temperature(*temperature);
  if (top_k) params.set_top_k(*top_k);
  if (top_p) params.set_top_p(*top_p);
  if (min_p) params.set_min_p(*min_p);
  if (repetition_penalty) params.set_repetition_penalty(*repetition_penalty);
  if (presence_penalty) params.set_presence_penalty(*presence_penalty);
  if (frequency_penalty) params.set_frequency_penalty(*frequency_penalty);
  for (const std::string& text : logit_bias) {
    const auto [id, bias] = ParseLogitBias(text).value();
    v1::LogitBias* const entry = params.add_logit_bias();
    entry->set_token_id(id);
    entry->set_bias(bias);
  }
  if (seed) params.set_seed(*seed);
  return params;
}

v1::StoppingParams SamplingFlags::Stopping() const {
  v1::StoppingParams params;
  if (max_tokens) params.set_max_tokens(*max_tokens);
  if (min_tokens) params.set_min_tokens(*min_tokens);
  for (const std::string& text : stop) params.add_stop(text);
  for (const uint32_t id : stop_ids) params.add_stop_ids(id);
  if (ignore_eos) params.set_ignore_eos(true);
  return params;
}

}  // namespace luna::cli
