#include "core/model/gguf.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::model {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxAlignment = 1 << 16;
constexpr uint32_t kMaxRank = 4;

// Bytes of one element of a fixed size; 0 for strings, arrays and unknown types.
size_t ElementBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

struct TensorType {
  uint32_t id;
  std::string_view name;
  std::optional<DType> dtype;  // what we read
};

constexpr TensorType kTensorTypes[] = {
    {0, "F32", DType::kF32},
    {1, "F16", DType::kF16},
    {2, "Q4_0", DType::kQ4_0},
    {3, "Q4_1", DType::kQ4_1},
    {6, "Q5_0", DType::kQ5_0},
    {7, "Q5_1", DType::kQ5_1},
    {8, "Q8_0", DType::kQ8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", {}},
    {11, "Q3_K", {}},
    {12, "Q4_K", DType::kQ4_K},
    {13, "Q5_K", DType::kQ5_K},
    {14, "Q6_K", DType::kQ6_K},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", {}},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", {}},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", {}},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {30, "BF16", DType::kBF16},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", {}},
};

// Walks the bytes of a file. A read past the end gives nothing and is remembered.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T Read() {
    T value{};
    const std::span<const std::byte> raw = Take(sizeof(T));
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  // `count` bytes, or none if fewer are left.
  std::span<const std::byte> Take(uint64_t count) {
    if (count > left()) {
      ok_ = false;
      position_ = bytes_.size();
      return {};
    }
    const auto taken = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return taken;
  }

  std::string_view String() {
    const std::span<const std::byte> raw = Take(Read<uint64_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  bool ok() const { return ok_; }
  uint64_t left() const { return bytes_.size() - position_; }
  size_t position() const { return position_; }
  std::span<const std::byte> From(size_t begin) const {
    return bytes_.subspan(begin, position_ - begin);
  }

 private:
  const std::span<const std::byte> bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes), name_(name), in_(bytes) {}

  absl::StatusOr<GgufFile> Parse() {
    LUNA_RETURN_IF_ERROR(ReadHeader());
    for (uint64_t i = 0; i < num_keys_; ++i) LUNA_RETURN_IF_ERROR(ReadKeyValue());
    LUNA_RETURN_IF_ERROR(ReadAlignment());
    for (uint64_t i = 0; i < num_tensors_; ++i) LUNA_RETURN_IF_ERROR(ReadTensor());
    LUNA_RETURN_IF_ERROR(PlaceTensors());
    return std::move(file_);
  }

 private:
  template <typename... Parts>
  absl::Status Invalid(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", parts...));
  }

  template <typename... Parts>
  absl::Status Unsupported(const Parts&... parts) const {
    return absl::UnimplementedError(absl::StrCat(name_, ": ", parts...));
  }

  absl::Status CheckNotPastEnd(std::string_view what) const {
    if (in_.ok()) return absl::OkStatus();
    return Invalid("the file ends after ", bytes_.size(), " bytes, inside ", AbslView(what));
  }

  absl::Status ReadHeader() {
    const uint32_t magic = in_.Read<uint32_t>();
    if (magic != kMagic) return Invalid("is not a GGUF file");
    file_.version = in_.Read<uint32_t>();
    if (in_.ok() && file_.version != 2 && file_.version != 3) {
      return Unsupported("GGUF version ", file_.version,
                         " is not supported; 2 and 3, little-endian, are");
    }
    num_tensors_ = in_.Read<uint64_t>();
    num_keys_ = in_.Read<uint64_t>();
    LUNA_RETURN_IF_ERROR(CheckNotPastEnd("the header"));
    // The least a key with its value and a tensor's description take.
    constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
    constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;
    if (num_keys_ > in_.left() / kMinKeyBytes) {
      return Invalid("says it has ", num_keys_, " metadata keys in ", in_.left(), " bytes");
    }
    if (num_tensors_ > in_.left() / kMinTensorBytes) {
      return Invalid("says it has ", num_tensors_, " tensors in ", in_.left(), " bytes");
    }
    return absl::OkStatus();
  }

  absl::Status ReadKeyValue() {
    const std::string_view key = in_.String();
    LUNA_RETURN_IF_ERROR(CheckNotPastEnd("a metadata key"));
    if (key.empty() || key.size() > kMaxKeyBytes) {
      return Invalid("a metadata key has ", key.size(), " bytes; the limit is ", kMaxKeyBytes);
    }
    const auto type = static_cast<GgufType>(in_.Read<uint32_t>());
    LUNA_ASSIGN_OR_RETURN(GgufValue value, ReadValue(type, key));
    LUNA_RETURN_IF_ERROR(CheckNotPastEnd(absl::StrCat("metadata ", AbslView(key))));
    if (!file_.metadata.emplace(key, std::move(value)).second) {
      return Invalid("metadata ", AbslView(key), " is there twice");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<GgufValue> ReadValue(GgufType type, std::string_view key) {
    switch (type) {
      case GgufType::kUint8:
        return uint64_t{in_.Read<uint8_t>()};
      case GgufType::kInt8:
        return int64_t{in_.Read<int8_t>()};
      case GgufType::kUint16:
        return uint64_t{in_.Read<uint16_t>()};
      case GgufType::kInt16:
        return int64_t{in_.Read<int16_t>()};
      case GgufType::kUint32:
        return uint64_t{in_.Read<uint32_t>()};
      case GgufType::kInt32:
        return int64_t{in_.Read<int32_t>()};
      case GgufType::kFloat32:
        return double{in_.Read<float>()};
      case GgufType::kBool:
        return in_.Read<uint8_t>() != 0;
      case GgufType::kString:
        return in_.String();
      case GgufType::kArray:
        return ReadArray(key);
      case GgufType::kUint64:
        return in_.Read<uint64_t>();
      case GgufType::kInt64:
        return in_.Read<int64_t>();
      case GgufType::kFloat64:
        return in_.Read<double>();
    }
    return Invalid("metadata ", AbslView(key), " has type ", static_cast<uint32_t>(type),
                   "; the last is ", static_cast<uint32_t>(GgufType::kFloat64));
  }

  absl::StatusOr<GgufValue> ReadArray(std::string_view key) {
    GgufArray array;
    array.type = static_cast<GgufType>(in_.Read<uint32_t>());
    array.count = in_.Read<uint64_t>();
    const size_t begin = in_.position();
    if (array.type == GgufType::kArray) {
      return Unsupported("metadata ", AbslView(key), " is an array of arrays");
    }
    if (array.type == GgufType::kString) {
      for (uint64_t i = 0; i < array.count && in_.ok(); ++i) in_.String();
    } else {
      const size_t size = ElementBytes(array.type);
      if (size == 0) {
        return Invalid("metadata ", AbslView(key), " is an array of type ",
                       static_cast<uint32_t>(array.type));
      }
      if (array.count > in_.left() / size) {
        return Invalid("metadata ", AbslView(key), " has ", array.count, " elements of ", size,
                       " bytes; ", in_.left(), " bytes are left");
      }
      in_.Take(array.count * size);
    }
    array.bytes = in_.From(begin);
    return array;
  }

  absl::Status ReadAlignment() {
    const GgufValue* value = file_.Find("general.alignment");
    if (value == nullptr) return absl::OkStatus();
    const auto* number = std::get_if<uint64_t>(value);
    if (number == nullptr || *number == 0 || *number % 8 != 0 || *number > kMaxAlignment) {
      return Invalid("general.alignment is ", number == nullptr ? 0 : *number,
                     "; it must be a multiple of 8, at most ", kMaxAlignment);
    }
    alignment_ = *number;
    return absl::OkStatus();
  }

  absl::StatusOr<DType> ReadTensorType(std::string_view tensor) {
    const uint32_t id = in_.Read<uint32_t>();
    LUNA_RETURN_IF_ERROR(CheckNotPastEnd("a tensor's description"));
    for (const TensorType& type : kTensorTypes) {
      if (type.id != id) continue;
      if (type.dtype) return *type.dtype;
      return Unsupported("tensor ", AbslView(tensor), " has type ", AbslView(type.name),
                         ", which is not supported");
    }
    return Invalid("tensor ", AbslView(tensor), " has the unknown type ", id);
  }

  // Reads one description; until PlaceTensors() the data pointer is left empty.
  absl::Status ReadTensor() {
    const std::string_view tensor_name = in_.String();
    const uint32_t rank = in_.Read<uint32_t>();
    LUNA_RETURN_IF_ERROR(CheckNotPastEnd("a tensor's description"));
    if (tensor_name.empty() || tensor_name.size() > kMaxKeyBytes) {
      return Invalid("a tensor's name has ", tensor_name.size(), " bytes; the limit is ",
                     kMaxKeyBytes);
    }
    if (rank == 0 || rank > kMaxRank) {
      return Invalid("tensor ", AbslView(tensor_name), " has ", rank, " dimensions; the limit is ",
                     kMaxRank);
    }
    FileTensor tensor;
    for (uint32_t i = 0; i < rank; ++i) {
      const uint64_t dim = in_.Read<uint64_t>();
      if (in_.ok() && (dim == 0 || dim > std::numeric_limits<int64_t>::max())) {
        return Invalid("tensor ", AbslView(tensor_name), " has a dimension of ", dim);
      }
      tensor.shape.push_back(static_cast<int64_t>(dim));
    }
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    LUNA_ASSIGN_OR_RETURN(tensor.dtype, ReadTensorType(tensor_name));
    const uint64_t offset = in_.Read<uint64_t>();
    LUNA_RETURN_IF_ERROR(CheckNotPastEnd("a tensor's description"));
    tensor.bytes = TensorBytes(tensor.dtype, tensor.shape);
    if (tensor.bytes < 0) {
      return Invalid("tensor ", AbslView(tensor_name), " has shape ", ShapeString(tensor.shape),
                     ", which is not possible for ", AbslView(DTypeName(tensor.dtype)));
    }
    if (offset % alignment_ != 0) {
      return Invalid("tensor ", AbslView(tensor_name), " lies at ", offset,
                     ", not a multiple of the alignment ", alignment_);
    }
    offsets_.push_back(offset);
    file_.tensors.emplace_back(tensor_name, std::move(tensor));
    return absl::OkStatus();
  }

  // Offsets count from the first aligned byte after the descriptions.
  absl::Status PlaceTensors() {
    const uint64_t padding = (alignment_ - in_.position() % alignment_) % alignment_;
    const auto data = bytes_.subspan(std::min<uint64_t>(in_.position() + padding, bytes_.size()));
    for (size_t i = 0; i < file_.tensors.size(); ++i) {
      auto& [tensor_name, tensor] = file_.tensors[i];
      const auto bytes = static_cast<uint64_t>(tensor.bytes);
      if (offsets_[i] > data.size() || bytes > data.size() - offsets_[i]) {
        return Invalid("tensor ", tensor_name, " has ", bytes, " bytes at ", offsets_[i],
                       "; the data has ", data.size());
      }
      tensor.data = data.data() + offsets_[i];
    }
    auto& tensors = file_.tensors;
    std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
      return a.second.data < b.second.data;
    });
    for (size_t i = 1; i < tensors.size(); ++i) {
      if (tensors[i - 1].second.data + tensors[i - 1].second.bytes > tensors[i].second.data) {
        return Invalid("tensor ", tensors[i].first, " overlaps tensor ", tensors[i - 1].first);
      }
    }
    return absl::OkStatus();
  }

  const std::span<const std::byte> bytes_;
  const std::string& name_;
  Cursor in_;
  GgufFile file_;
  uint64_t num_tensors_ = 0;
  uint64_t num_keys_ = 0;
  uint64_t alignment_ = 32;
  std::vector<uint64_t> offsets_;  // of file_.tensors, before they are sorted
};

template <typename T, typename Out>
std::vector<Out> Elements(const GgufArray& array) {
  std::vector<Out> out;
  out.reserve(static_cast<size_t>(array.count));
  Cursor in(array.bytes);
  for (uint64_t i = 0; i < array.count; ++i) out.push_back(static_cast<Out>(in.Read<T>()));
  return out;
}

}  // namespace

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

absl::StatusOr<GgufFile> ParseGguf(std::span<const std::byte> file, const std::string& name) {
  return Parser(file, name).Parse();
}

std::optional<std::vector<std::string>> GgufStrings(const GgufArray& array) {
  if (array.type != GgufType::kString) return std::nullopt;
  std::vector<std::string> out;
  out.reserve(static_cast<size_t>(array.count));
  Cursor in(array.bytes);
  for (uint64_t i = 0; i < array.count; ++i) out.emplace_back(in.String());
  return out;
}

std::optional<std::vector<int64_t>> GgufInts(const GgufArray& array) {
  switch (array.type) {
    case GgufType::kUint8:
    case GgufType::kBool:
      return Elements<uint8_t, int64_t>(array);
    case GgufType::kInt8:
      return Elements<int8_t, int64_t>(array);
    case GgufType::kUint16:
      return Elements<uint16_t, int64_t>(array);
    case GgufType::kInt16:
      return Elements<int16_t, int64_t>(array);
    case GgufType::kUint32:
      return Elements<uint32_t, int64_t>(array);
    case GgufType::kInt32:
      return Elements<int32_t, int64_t>(array);
    case GgufType::kUint64:
      return Elements<uint64_t, int64_t>(array);
    case GgufType::kInt64:
      return Elements<int64_t, int64_t>(array);
    default:
      return std::nullopt;
  }
}

std::optional<std::vector<float>> GgufFloats(const GgufArray& array) {
  if (array.type == GgufType::kFloat32) return Elements<float, float>(array);
  if (array.type == GgufType::kFloat64) return Elements<double, float>(array);
  return std::nullopt;
}

}  // namespace luna::model
