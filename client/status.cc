#include "client/status.h"

#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "luna/rpc/error_details.pb.h"

namespace luna::client {
namespace {

constexpr std::string_view kBadRequest = "type.googleapis.com/google.rpc.BadRequest";
constexpr std::string_view kRetryInfo = "type.googleapis.com/google.rpc.RetryInfo";
constexpr std::string_view kErrorInfo = "type.googleapis.com/google.rpc.ErrorInfo";

template <typename Detail>
std::optional<Detail> PayloadOf(const absl::Status& status, std::string_view type_url) {
  const auto payload = status.GetPayload(AbslView(type_url));
  Detail detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

// "Invalid argument" instead of INVALID_ARGUMENT.
std::string CodeInWords(absl::StatusCode code) {
  std::string words = absl::StatusCodeToString(code);
  for (size_t i = 0; i < words.size(); ++i) {
    const bool upper = words[i] >= 'A' && words[i] <= 'Z';
    if (words[i] == '_') {
      words[i] = ' ';
    } else if (i > 0 && upper) {
      words[i] = static_cast<char>(words[i] - 'A' + 'a');
    }
  }
  return words;
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      AbslView(status.error_message()));
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) {
      result.SetPayload(AbslView(detail.type_url()), absl::Cord(AbslView(detail.value())));
    }
  }
  return result;
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const auto info = PayloadOf<google::rpc::RetryInfo>(status, kRetryInfo);
  if (!info.has_value() || !info->has_retry_delay()) return std::nullopt;
  return absl::Seconds(info->retry_delay().seconds()) +
         absl::Nanoseconds(info->retry_delay().nanos());
}

std::string Describe(const absl::Status& status) {
  if (status.ok()) return "OK";
  const std::string message(StdView(status.message()));
  std::string text = CodeInWords(status.code());
  if (!message.empty()) absl::StrAppend(&text, ": ", message);
  if (const auto bad = PayloadOf<google::rpc::BadRequest>(status, kBadRequest)) {
    for (const auto& violation : bad->field_violations()) {
      const bool said = message.find(violation.field()) != std::string::npos &&
                        message.find(violation.description()) != std::string::npos;
      if (!said) absl::StrAppend(&text, "\n  ", violation.field(), ": ", violation.description());
    }
  }
  if (const auto info = PayloadOf<google::rpc::ErrorInfo>(status, kErrorInfo)) {
    if (!info->reason().empty()) absl::StrAppend(&text, " [", info->reason(), "]");
  }
  if (const auto delay = RetryDelay(status)) {
    absl::StrAppend(&text, "\n  try again in ", absl::FormatDuration(*delay));
  }
  return text;
}

}  // namespace luna::client
