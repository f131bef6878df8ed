#include "core/sample/params.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"

namespace luna::sample {
namespace {

// The comparisons are written so that NaN fails each of them.
absl::Status CheckRange(std::string_view field, float value, float low, float high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(value, " is outside [", low, ", ", high, "]"));
}

absl::Status CheckPositive(std::string_view field, float value, float high) {
  if (value > 0.0f && value <= high) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(value, " is outside (0, ", high, "]"));
}

absl::Status CheckCount(std::string_view field, size_t count, int limit) {
  if (count <= static_cast<size_t>(limit)) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(count, " entries; the limit is ", limit));
}

absl::Status CheckToken(std::string_view field, size_t index, TokenId token, int vocab_size) {
  if (token >= 0 && token < vocab_size) return absl::OkStatus();
  return InvalidField(
      absl::StrCat(AbslView(field), "[", index, "]"),
      absl::StrCat("token id ", token, " is outside the vocabulary of ", vocab_size));
}

absl::Status CheckLogitBias(const SamplingParams& params, int vocab_size) {
  LUNA_RETURN_IF_ERROR(CheckCount("logit_bias", params.logit_bias.size(), kMaxLogitBias));
  for (size_t i = 0; i < params.logit_bias.size(); ++i) {
    const auto& [token, bias] = params.logit_bias[i];
    LUNA_RETURN_IF_ERROR(CheckToken("logit_bias", i, token, vocab_size));
    LUNA_RETURN_IF_ERROR(CheckRange(absl::StrCat("logit_bias[", i, "]"), bias, -100.0f, 100.0f));
  }
  return absl::OkStatus();
}

absl::Status CheckStopStrings(const std::vector<std::string>& stop) {
  LUNA_RETURN_IF_ERROR(CheckCount("stop", stop.size(), kMaxStopStrings));
  for (size_t i = 0; i < stop.size(); ++i) {
    if (!stop[i].empty() && stop[i].size() <= kMaxStopBytes) continue;
    return InvalidField(absl::StrCat("stop[", i, "]"),
                        absl::StrCat(stop[i].size(), " bytes; it takes 1 to ", kMaxStopBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const SamplingParams& params, int vocab_size) {
  LUNA_RETURN_IF_ERROR(CheckRange("temperature", params.temperature, 0.0f, 100.0f));
  if (params.top_k < 0) return InvalidField("top_k", absl::StrCat(params.top_k, " is below 0"));
  LUNA_RETURN_IF_ERROR(CheckPositive("top_p", params.top_p, 1.0f));
  LUNA_RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0.0f, 1.0f));
  LUNA_RETURN_IF_ERROR(CheckPositive("repetition_penalty", params.repetition_penalty, 100.0f));
  LUNA_RETURN_IF_ERROR(CheckRange("presence_penalty", params.presence_penalty, -2.0f, 2.0f));
  LUNA_RETURN_IF_ERROR(CheckRange("frequency_penalty", params.frequency_penalty, -2.0f, 2.0f));
  LUNA_RETURN_IF_ERROR(CheckLogitBias(params, vocab_size));
  const int max_logprobs = std::min(kMaxLogprobs, vocab_size);
  if (params.num_logprobs < -1 || params.num_logprobs > max_logprobs) {
    return InvalidField("num_logprobs",
                        absl::StrCat(params.num_logprobs, " is outside [0, ", max_logprobs, "]"));
  }
  return absl::OkStatus();
}

absl::Status Validate(const StopParams& params, int vocab_size) {
  if (params.max_tokens < -1) {
    return InvalidField("max_tokens", absl::StrCat(params.max_tokens, " is below 0"));
  }
  if (params.min_tokens < 0) {
    return InvalidField("min_tokens", absl::StrCat(params.min_tokens, " is below 0"));
  }
  if (params.max_tokens >= 0 && params.min_tokens > params.max_tokens) {
    return InvalidField(
        "min_tokens", absl::StrCat(params.min_tokens, " is above max_tokens, ", params.max_tokens));
  }
  LUNA_RETURN_IF_ERROR(CheckStopStrings(params.stop));
  LUNA_RETURN_IF_ERROR(CheckCount("stop_ids", params.stop_ids.size(), kMaxStopIds));
  for (size_t i = 0; i < params.stop_ids.size(); ++i) {
    LUNA_RETURN_IF_ERROR(CheckToken("stop_ids", i, params.stop_ids[i], vocab_size));
  }
  return absl::OkStatus();
}

}  // namespace luna::sample
