#include "core/model/json_fields.h"

#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::model {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 32;

// Brackets outside strings. A parser's memory grows with nesting far faster than the text does.
int NestingDepth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if (c == '}' || c == ']') --depth;
  }
  return deepest;
}

}  // namespace

std::string JsonExcerpt(const json& value) {
  constexpr size_t kLimit = 60;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLimit) text = text.substr(0, kLimit) + "...";
  return text;
}

absl::StatusOr<json> ParseJsonObject(std::string_view text, std::string_view file) {
  const auto invalid = [&](std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(AbslView(file), ": ", AbslView(why)));
  };
  if (NestingDepth(text) > kMaxDepth) return invalid("nests deeper than 32");
  std::vector<std::set<std::string>> keys_of_open_objects;
  std::string repeated;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys_of_open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) keys_of_open_objects.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_of_open_objects.back().insert(key).second) repeated = key;
    }
    return true;
  };
  json value = json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (value.is_discarded()) return invalid("not valid JSON");
  if (!value.is_object()) return invalid("not a JSON object");
  if (!repeated.empty()) return invalid(absl::StrCat("key \"", repeated, "\" is there twice"));
  return value;
}

const json* JsonFields::Find(std::string_view key) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(std::string(key));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

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
