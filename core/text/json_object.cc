#include "core/text/json_object.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace luna::text {
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

absl::StatusOr<json> ParseJsonObject(std::string_view text, std::string_view file) {
  const auto invalid = [&](std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(AbslView(file), ": ", AbslView(why)));
  };
  if (NestingDepth(text) > kMaxDepth) return invalid("nests deeper than 32");
  std::vector<absl::flat_hash_set<std::string>> keys_of_open_objects;
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

const json* FindMember(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(key));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool BoolMember(const json& object, std::string_view key, bool otherwise) {
  const json* value = FindMember(object, key);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

std::string StringMember(const json& object, std::string_view key) {
  const json* value = FindMember(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

}  // namespace luna::text
