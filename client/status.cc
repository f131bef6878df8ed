#include "client/status.h"

#include <string_view>

#include "absl/strings/ascii.h"
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

// Whether `message` has the field as a word of its own, and not only as a part of another: "text"
// is in "context".
bool Names(std::string_view message, std::string_view field) {
  const auto inside_word = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (size_t at = message.find(field); at != message.npos; at = message.find(field, at + 1)) {
    const size_t end = at + field.size();
    const bool begins = at == 0 || !inside_word(message[at - 1]);
    const bool ends = end == message.size() || !inside_word(message[end]);
    if (begins && ends) return true;
  }
  return false;
}

// What a violation tells beyond the message.
std::string Beyond(std::string_view message, std::string_view field, std::string_view description) {
  if (message.find(description) == message.npos) {
    return Names(description, field)
               ? absl::StrCat("\n  ", AbslView(description))
               : absl::StrCat("\n  ", AbslView(field), ": ", AbslView(description));
  }
  return field.empty() || Names(message, field) ? "" : absl::StrCat(" (", AbslView(field), ")");
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
  const std::string code = absl::StatusCodeToString(status.code());
  std::string text = CodeInWords(status.code());
  if (!message.empty() && message != code) absl::StrAppend(&text, ": ", message);
  if (const auto bad = PayloadOf<google::rpc::BadRequest>(status, kBadRequest)) {
    for (const auto& violation : bad->field_violations()) {
      absl::StrAppend(&text, Beyond(message, violation.field(), violation.description()));
    }
  }
  if (const auto info = PayloadOf<google::rpc::ErrorInfo>(status, kErrorInfo)) {
    const bool is_code = info->reason() == code;
    if (!info->reason().empty() && !is_code) absl::StrAppend(&text, " [", info->reason(), "]");
  }
  if (const auto delay = RetryDelay(status)) {
    absl::StrAppend(&text, "\n  try again in ", absl::FormatDuration(*delay));
  }
  return text;
}

}  // namespace luna::client
