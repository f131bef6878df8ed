#include "core/model/json_fields.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/text/json_object.h"

namespace luna::model {
using nlohmann::json;

std::string JsonExcerpt(const json& value) {
  constexpr size_t kLimit = 60;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLimit) text = text.substr(0, kLimit) + "...";
  return text;
}

const json* JsonFields::Find(std::string_view key) const { return text::FindMember(object_, key); }

void JsonFields::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void JsonFields::Invalid(std::string_view key, std::string_view why) {
  const json* value = Find(key);
  const std::string shown = value == nullptr ? "absent" : JsonExcerpt(*value);
  Fail(absl::InvalidArgumentError(
      absl::StrCat(file_, ": \"", AbslView(key), "\" is ", shown, "; ", AbslView(why))));
}

void JsonFields::Unsupported(std::string_view key, std::string_view why) {
  const json* value = Find(key);
  const std::string shown = value == nullptr ? "absent" : JsonExcerpt(*value);
  Fail(absl::UnimplementedError(absl::StrCat(file_, ": \"", AbslView(key), "\" is ", shown,
                                             ", which is not supported", why.empty() ? "" : "; ",
                                             AbslView(why))));
}

int JsonFields::RequiredInt(std::string_view key) {
  if (Find(key) == nullptr) {
    Fail(absl::InvalidArgumentError(absl::StrCat(file_, ": \"", AbslView(key), "\" is missing")));
    return 0;
  }
  return Int(key, 0);
}

int JsonFields::Int(std::string_view key, int fallback) {
  const json* value = Find(key);
  if (value == nullptr) return fallback;
  constexpr int64_t kLow = std::numeric_limits<int>::min();
  constexpr int64_t kHigh = std::numeric_limits<int>::max();
  // An unsigned number above int64 would wrap on the way out.
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<uint64_t>() <= kHigh) &&
                    value->get<int64_t>() >= kLow && value->get<int64_t>() <= kHigh;
  if (fits) return static_cast<int>(value->get<int64_t>());
  Invalid(key, "it must be an integer of 32 bits");
  return fallback;
}

double JsonFields::Number(std::string_view key, double fallback) {
  const json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_number()) return value->get<double>();
  Invalid(key, "it must be a number");
  return fallback;
}

bool JsonFields::Bool(std::string_view key, bool fallback) {
  const json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Invalid(key, "it must be true or false");
  return fallback;
}

std::string JsonFields::String(std::string_view key, std::string_view fallback) {
  const json* value = Find(key);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  Invalid(key, "it must be a string");
  return std::string(fallback);
}

}  // namespace luna::model
