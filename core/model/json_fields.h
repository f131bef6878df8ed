// Typed reading of a JSON object from a file nobody vouches for.
#ifndef LUNA_CORE_MODEL_JSON_FIELDS_H_
#define LUNA_CORE_MODEL_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace luna::model {

// Fields of one object, by key. A key that holds null counts as absent. Errors stick: after the
// first one the rest reads as fallbacks, and status() says what it was, naming key and value.
class JsonFields {
 public:
  // Borrows `object`; anything but an object has no fields.
  JsonFields(const nlohmann::json& object, std::string file)
      : object_(object), file_(std::move(file)) {}

  // True also for a key that holds null.
  bool HasKey(std::string_view key) const { return object_.contains(std::string(key)); }
  // Null if absent.
  const nlohmann::json* Find(std::string_view key) const;

  int RequiredInt(std::string_view key);
  int Int(std::string_view key, int fallback);
  double Number(std::string_view key, double fallback);
  bool Bool(std::string_view key, bool fallback);
  std::string String(std::string_view key, std::string_view fallback);

  // Records that `key` holds something we do not support; `why` may name what we do.
  void Unsupported(std::string_view key, std::string_view why);
  // Records that `key` holds something that makes no sense; `why` says what would.
  void Invalid(std::string_view key, std::string_view why);
  void Fail(absl::Status status);

  const absl::Status& status() const { return status_; }
  const std::string& file() const { return file_; }

 private:
  const nlohmann::json& object_;
  std::string file_;
  absl::Status status_;
};

// The start of a JSON value as it was written, for messages.
std::string JsonExcerpt(const nlohmann::json& value);

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_JSON_FIELDS_H_
