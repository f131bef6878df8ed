// Writes small model files for the tests: safetensors, Hugging Face directories, GGUF.
#ifndef LUNA_TESTS_MODEL_MODEL_FILES_H_
#define LUNA_TESTS_MODEL_MODEL_FILES_H_

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/absl_view.h"
#include "core/model/tensor.h"
#include "tests/fakes/temp_dir.h"

namespace luna::model {

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

template <typename T>
void AppendRaw(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// first, first + 1, ... as f32 bytes.
inline std::string Ramp(int64_t count, float first = 0.0f) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) AppendRaw(bytes, first + static_cast<float>(i));
  return bytes;
}

inline int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

class SafetensorsWriter {
 public:
  SafetensorsWriter& Add(const std::string& name, const std::vector<int64_t>& shape,
                         const std::string& bytes, const std::string& dtype = "F32") {
    entries_.push_back(absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":[",
                                    absl::StrJoin(shape, ","), "],\"data_offsets\":[", data_.size(),
                                    ",", data_.size() + bytes.size(), "]}"));
    data_ += bytes;
    return *this;
  }
  // F32, counting up from `first`.
  SafetensorsWriter& AddRamp(const std::string& name, const std::vector<int64_t>& shape,
                             float first = 0.0f) {
    return Add(name, shape, Ramp(Product(shape), first));
  }
  std::string Build() const {
    return WithHeader(absl::StrCat("{", absl::StrJoin(entries_, ","), "}"), data_);
  }

  static std::string WithHeader(const std::string& header, std::string_view data) {
    std::string file;
    AppendRaw(file, uint64_t{header.size()});
    return absl::StrCat(file, header, AbslView(data));
  }

 private:
  std::vector<std::string> entries_;
  std::string data_;
};

// Types as the GGUF specification numbers them.
enum GgufTypeId : uint32_t {
  kU8 = 0,
  kU32 = 4,
  kI32 = 5,
  kF32Value = 6,
  kBoolValue = 7,
  kStr = 8,
  kArr = 9,
  kU64 = 10,
};
enum GgmlTypeId : uint32_t { kGgmlF32 = 0, kGgmlF16 = 1, kGgmlQ4_0 = 2, kGgmlQ8_0 = 8 };

class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3) : version_(version) {}

  GgufWriter& U32(std::string_view key, uint32_t value) { return Scalar(key, kU32, value); }
  GgufWriter& F32(std::string_view key, float value) { return Scalar(key, kF32Value, value); }
  GgufWriter& Bool(std::string_view key, bool value) {
    return Scalar(key, kBoolValue, static_cast<uint8_t>(value));
  }
  GgufWriter& String(std::string_view key, std::string_view value) {
    Key(key, kStr);
    AppendString(metadata_, value);
    return *this;
  }
  GgufWriter& Strings(std::string_view key, const std::vector<std::string>& values) {
    Key(key, kArr);
    AppendRaw(metadata_, uint32_t{kStr});
    AppendRaw(metadata_, uint64_t{values.size()});
    for (const std::string& value : values) AppendString(metadata_, value);
    return *this;
  }
  GgufWriter& Ints(std::string_view key, const std::vector<int32_t>& values) {
    return Numbers(key, kI32, values);
  }
  GgufWriter& Floats(std::string_view key, const std::vector<float>& values) {
    return Numbers(key, kF32Value, values);
  }
  // `content` is what follows the type, as it is.
  GgufWriter& Raw(std::string_view key, uint32_t type, std::string_view content) {
    Key(key, type);
    metadata_ += content;
    return *this;
  }
  // `dims` in the file's order: the row length first.
  GgufWriter& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                     std::string_view bytes) {
    data_.resize((data_.size() + 31) / 32 * 32);
    Describe(name, dims, type, data_.size());
    data_ += bytes;
    return *this;
  }
  GgufWriter& TensorF32(std::string_view name, const std::vector<uint64_t>& dims,
                        float first = 0.0f) {
    int64_t count = 1;
    for (const uint64_t dim : dims) count *= static_cast<int64_t>(dim);
    return Tensor(name, dims, kGgmlF32, Ramp(count, first));
  }
  // Only the description, to point anywhere.
  GgufWriter& Describe(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                       uint64_t offset) {
    AppendString(tensors_, name);
    AppendRaw(tensors_, static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) AppendRaw(tensors_, dim);
    AppendRaw(tensors_, type);
    AppendRaw(tensors_, offset);
    ++num_tensors_;
    return *this;
  }
  std::string Build() const {
    std::string file = "GGUF";
    AppendRaw(file, version_);
    AppendRaw(file, num_tensors_);
    AppendRaw(file, num_keys_);
    file += metadata_ + tensors_;
    file.resize((file.size() + 31) / 32 * 32);
    return file + data_;
  }

 private:
  static void AppendString(std::string& out, std::string_view value) {
    AppendRaw(out, uint64_t{value.size()});
    out += value;
  }
  void Key(std::string_view key, uint32_t type) {
    AppendString(metadata_, key);
    AppendRaw(metadata_, type);
    ++num_keys_;
  }
  template <typename T>
  GgufWriter& Scalar(std::string_view key, uint32_t type, T value) {
    Key(key, type);
    AppendRaw(metadata_, value);
    return *this;
  }
  template <typename T>
  GgufWriter& Numbers(std::string_view key, uint32_t type, const std::vector<T>& values) {
    Key(key, kArr);
    AppendRaw(metadata_, type);
    AppendRaw(metadata_, uint64_t{values.size()});
    for (const T& value : values) AppendRaw(metadata_, value);
    return *this;
  }

  uint32_t version_;
  uint64_t num_keys_ = 0;
  uint64_t num_tensors_ = 0;
  std::string metadata_;
  std::string tensors_;
  std::string data_;
};

}  // namespace luna::model

#endif  // LUNA_TESTS_MODEL_MODEL_FILES_H_
