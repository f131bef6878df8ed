#include "core/base/status_details.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/check.h"

namespace luna {
namespace {

constexpr char kFieldUrl[] = "luna.field";
constexpr char kRetryAfterUrl[] = "luna.retry_after_ms";

}  // namespace

absl::Status WithField(absl::Status status, std::string_view field) {
  LUNA_CHECK(!status.ok());
  status.SetPayload(kFieldUrl, absl::Cord(AbslView(field)));
  return status;
}

std::string FieldOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldUrl);
  return payload.has_value() ? std::string(*payload) : std::string();
}

absl::Status WithRetryAfter(absl::Status status, absl::Duration delay) {
  LUNA_CHECK(!status.ok());
  const int64_t millis = std::max<int64_t>(absl::ToInt64Milliseconds(delay), 1);
  status.SetPayload(kRetryAfterUrl, absl::Cord(absl::StrCat(millis)));
  return status;
}

std::optional<absl::Duration> RetryAfterOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfterUrl);
  int64_t millis = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &millis))
    return std::nullopt;
  return absl::Milliseconds(millis);
}

absl::Status InvalidField(std::string_view field, std::string_view reason) {
  return WithField(
      absl::InvalidArgumentError(absl::StrCat(AbslView(field), ": ", AbslView(reason))), field);
}

}  // namespace luna
