#include "core/model/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/model/json_fields.h"
#include "core/text/json_object.h"

namespace luna::model {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
// Far above any model's. The format's own limit of 100 MB would let a small value's parsed form,
// which is many times its text, take gigabytes.
constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;
constexpr size_t kMaxRank = 8;

absl::Status Invalid(const std::string& file, std::string_view tensor, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": tensor ", AbslView(tensor), ": ", AbslView(why)));
}

absl::StatusOr<std::string_view> HeaderText(std::span<const std::byte> file,
                                            const std::string& name) {
  if (file.size() < kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has ", file.size(), " bytes; a safetensors file has at least 8"));
  }
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof(length));
  const uint64_t limit = std::min<uint64_t>(file.size() - kLengthBytes, kMaxHeaderBytes);
  if (length > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the header has ", length, " bytes; the limit is ", limit));
  }
  return std::string_view(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                          static_cast<size_t>(length));
}

// A list of non-negative integers that fit int64, at most `max_size` long.
std::optional<std::vector<int64_t>> IntegerList(const json& value, size_t max_size) {
  if (!value.is_array() || value.size() > max_size) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const json& item : value) {
    if (!item.is_number_unsigned()) return std::nullopt;
    const uint64_t number = item.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    numbers.push_back(static_cast<int64_t>(number));
  }
  return numbers;
}

absl::StatusOr<DType> ReadDType(const json& value, const std::string& file,
                                std::string_view tensor) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (value.is_string() && value.get_ref<const std::string&>() == DTypeName(dtype)) return dtype;
  }
  return absl::UnimplementedError(absl::StrCat(file, ": tensor ", AbslView(tensor), ": dtype ",
                                               JsonExcerpt(value),
                                               " is not supported; F32, F16 and BF16 are"));
}

absl::StatusOr<FileTensor> ReadEntry(const json& entry, std::span<const std::byte> data,
                                     const std::string& file, const std::string& name) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return Invalid(file, name, "needs dtype, shape and data_offsets");
  }
  FileTensor tensor;
  const auto shape = IntegerList(entry["shape"], kMaxRank);
  if (!shape) return Invalid(file, name, absl::StrCat("shape is ", JsonExcerpt(entry["shape"])));
  tensor.shape = *shape;
  const auto offsets = IntegerList(entry["data_offsets"], 2);
  if (!offsets || offsets->size() != 2) {
    return Invalid(file, name,
                   absl::StrCat("data_offsets is ", JsonExcerpt(entry["data_offsets"])));
  }
  const int64_t begin = (*offsets)[0];
  const int64_t end = (*offsets)[1];
  if (begin > end || end > static_cast<int64_t>(data.size())) {
    return Invalid(
        file, name,
        absl::StrCat("lies from ", begin, " to ", end, "; the data has ", data.size(), " bytes"));
  }
  LUNA_ASSIGN_OR_RETURN(tensor.dtype, ReadDType(entry["dtype"], file, name));
  tensor.bytes = TensorBytes(tensor.dtype, tensor.shape);
  if (tensor.bytes != end - begin) {
    return Invalid(file, name,
                   absl::StrCat("has ", end - begin, " bytes; shape ", ShapeString(tensor.shape),
                                " of ", AbslView(DTypeName(tensor.dtype)),
                                tensor.bytes < 0 ? " is not possible"
                                                 : absl::StrCat(" needs ", tensor.bytes)));
  }
  tensor.data = data.data() + begin;
  return tensor;
}

absl::Status CheckOverlap(const std::vector<NamedTensor>& sorted, const std::string& file) {
  for (size_t i = 1; i < sorted.size(); ++i) {
    const FileTensor& before = sorted[i - 1].second;
    if (before.data + before.bytes > sorted[i].second.data) {
      return Invalid(file, sorted[i].first, absl::StrCat("overlaps tensor ", sorted[i - 1].first));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> ParseSafetensors(std::span<const std::byte> file,
                                                          const std::string& name) {
  LUNA_ASSIGN_OR_RETURN(const std::string_view text, HeaderText(file, name));
  LUNA_ASSIGN_OR_RETURN(const json header, text::ParseJsonObject(text, name));
  const std::span<const std::byte> data = file.subspan(kLengthBytes + text.size());
  std::vector<NamedTensor> tensors;
  for (const auto& [key, entry] : header.items()) {
    if (key == "__metadata__") continue;
    LUNA_ASSIGN_OR_RETURN(FileTensor tensor, ReadEntry(entry, data, name, key));
    tensors.emplace_back(key, std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return a.second.data < b.second.data;
  });
  LUNA_RETURN_IF_ERROR(CheckOverlap(tensors, name));
  return tensors;
}

}  // namespace luna::model
