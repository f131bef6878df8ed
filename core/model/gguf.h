// Reads the GGUF container, versions 2 and 3, little-endian: metadata by key, then tensors.
#ifndef LUNA_CORE_MODEL_GGUF_H_
#define LUNA_CORE_MODEL_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/safetensors.h"
#include "core/model/tensor_table.h"

namespace luna::model {

// As the specification numbers them.
enum class GgufType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// An array of numbers, booleans or strings, still in the file. Its bytes have been checked: strings
// (u64 length, then bytes) all end inside.
struct GgufArray {
  GgufType type = GgufType::kUint8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;
};

using GgufValue = std::variant<bool, uint64_t, int64_t, double, std::string_view, GgufArray>;

// Views into the bytes it was parsed from.
struct GgufFile {
  uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<NamedTensor> tensors;  // in the order of their offsets; shapes outermost first

  // Null if absent.
  const GgufValue* Find(std::string_view key) const;
};

// Every count, length, offset and product is checked before it is used, and nothing is allocated by
// a count that the file's size does not vouch for. INVALID_ARGUMENT names the part, the value and
// the limit; UNIMPLEMENTED a version, a tensor type or nested arrays. `name` is the file's, for
// messages.
absl::StatusOr<GgufFile> ParseGguf(std::span<const std::byte> file, const std::string& name);

// Elements of an array; nothing if it holds another type.
std::optional<std::vector<std::string>> GgufStrings(const GgufArray& array);
std::optional<std::vector<int64_t>> GgufInts(const GgufArray& array);  // any integer type or bool
std::optional<std::vector<float>> GgufFloats(const GgufArray& array);  // f32 and f64

// Metadata under one prefix ("llama."), by the rest of the key. Errors stick: after the first one
// the rest reads as fallbacks, and status() says what it was, naming key and value.
class GgufFields {
 public:
  // Borrows `file`.
  GgufFields(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  const GgufValue* Find(std::string_view key) const;
  int RequiredInt(std::string_view key);
  int Int(std::string_view key, int fallback);
  double Number(std::string_view key, double fallback);
  bool Bool(std::string_view key, bool fallback);
  std::string String(std::string_view key, std::string_view fallback);

  void Invalid(std::string_view key, std::string_view why);
  void Unsupported(std::string_view key, std::string_view why);
  void Fail(absl::Status status);
  const absl::Status& status() const { return status_; }

 private:
  const GgufFile& file_;
  std::string prefix_;
  absl::Status status_;
};

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_GGUF_H_
