// Reading of JSON objects from files nobody vouches for.
#ifndef LUNA_CORE_TEXT_JSON_OBJECT_H_
#define LUNA_CORE_TEXT_JSON_OBJECT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace luna::text {

// The object in `text`. INVALID_ARGUMENT, beginning with `file`, if it is not one JSON object,
// nests deeper than 32, or repeats a key of one object.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view file);

// The member of `object`; null where it is absent or holds null, or `object` is no object.
const nlohmann::json* FindMember(const nlohmann::json& object, std::string_view key);
// `otherwise` where the member is absent or of another type.
bool BoolMember(const nlohmann::json& object, std::string_view key, bool otherwise);
// Empty where the member is absent or of another type.
std::string StringMember(const nlohmann::json& object, std::string_view key);

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_JSON_OBJECT_H_
