#include "core/model/tensor_table.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/absl_view.h"

namespace luna::model {
namespace {

bool IsAligned(const std::byte* data, DType dtype) {
  const uintptr_t alignment = dtype == DType::kF32 ? 4 : 2;
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

// Leading ones say nothing: GGUF and converters add them.
std::vector<int64_t> WithoutLeadingOnes(const std::vector<int64_t>& shape, size_t rank) {
  size_t skip = 0;
  while (shape.size() - skip > rank && shape[skip] == 1) ++skip;
  return {shape.begin() + static_cast<std::ptrdiff_t>(skip), shape.end()};
}

absl::Status WrongShape(const std::string& name, const FileTensor& tensor,
                        const std::vector<int64_t>& expected) {
  return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " has shape ",
                                                 ShapeString(tensor.shape), "; the model needs ",
                                                 ShapeString(expected)));
}

}  // namespace

std::byte* AllocateIn(Storage& storage, int64_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  auto* data = static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), kAlignment));
  storage.push_back(std::shared_ptr<const void>(
      data, [](const void* p) { ::operator delete(const_cast<void*>(p), kAlignment); }));
  std::memset(data, 0, static_cast<size_t>(bytes));
  return data;
}

int64_t NumElements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    if (dim <= 0 || __builtin_mul_overflow(count, dim, &count)) return -1;
  }
  return count;
}

int64_t TensorBytes(DType dtype, const std::vector<int64_t>& shape) {
  const int64_t count = NumElements(shape);
  const int64_t row = shape.empty() ? 1 : shape.back();
  if (count < 0 || row % BlockValues(dtype) != 0) return -1;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(count / BlockValues(dtype), int64_t{BlockBytes(dtype)}, &bytes)) {
    return -1;
  }
  return bytes;
}

std::string ShapeString(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status TensorTable::Add(std::string name, FileTensor tensor) {
  total_bytes_ += tensor.bytes;
  const auto [place, inserted] = tensors_.emplace(std::move(name), std::move(tensor));
  if (inserted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor ", place->first, " is there twice"));
}

const FileTensor* TensorTable::Take(const std::string& name) {
  if (!status_.ok()) return nullptr;
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("tensor ", name, " is missing")));
    return nullptr;
  }
  taken_.insert(name);
  return &found->second;
}

Tensor TensorTable::TakeMatrix(const std::string& name, int64_t rows, int64_t cols) {
  const FileTensor* tensor = Take(name);
  if (tensor == nullptr) return {};
  const std::vector<int64_t> expected = {rows, cols};
  if (WithoutLeadingOnes(tensor->shape, 2) != expected) {
    Fail(WrongShape(name, *tensor, expected));
    return {};
  }
  const std::byte* data = tensor->data;
  if (!IsAligned(data, tensor->dtype)) {
    std::byte* copy = AllocateIn(storage_, tensor->bytes);
    std::memcpy(copy, data, static_cast<size_t>(tensor->bytes));
    data = copy;
  }
  return {tensor->dtype, rows, cols, data};
}

Tensor TensorTable::TakeVector(const std::string& name, int64_t size) {
  const FileTensor* tensor = Take(name);
  if (tensor == nullptr) return {};
  const std::vector<int64_t> expected = {size};
  if (WithoutLeadingOnes(tensor->shape, 1) != expected) {
    Fail(WrongShape(name, *tensor, expected));
    return {};
  }
  if (tensor->dtype == DType::kF32 && IsAligned(tensor->data, DType::kF32)) {
    return {DType::kF32, 1, size, tensor->data};
  }
  std::byte* wide = AllocateIn(storage_, size * static_cast<int64_t>(sizeof(float)));
  DequantizeRow(tensor->dtype, tensor->data, size, reinterpret_cast<float*>(wide));
  return {DType::kF32, 1, size, wide};
}

Tensor TensorTable::TakeVectorIfPresent(const std::string& name, int64_t size) {
  return Has(name) ? TakeVector(name, size) : Tensor{};
}

void TensorTable::Ignore(std::string_view name) {
  if (Has(name)) taken_.emplace(name);
}

void TensorTable::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

absl::Status TensorTable::CheckAllTaken() const {
  for (const auto& [name, tensor] : tensors_) {
    if (taken_.count(name) != 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " ", ShapeString(tensor.shape),
                                                   " is not a part of this architecture"));
  }
  return absl::OkStatus();
}

std::string TensorTable::TypeSummary() const {
  std::map<DType, int> counts;
  for (const auto& [name, tensor] : tensors_) ++counts[tensor.dtype];
  std::vector<std::pair<int, DType>> by_count;
  for (const auto& [dtype, count] : counts) by_count.push_back({-count, dtype});
  std::sort(by_count.begin(), by_count.end());
  return absl::StrJoin(by_count, ", ", [](std::string* out, const std::pair<int, DType>& entry) {
    absl::StrAppend(out, AbslView(DTypeName(entry.second)), " x ", -entry.first);
  });
}

}  // namespace luna::model
