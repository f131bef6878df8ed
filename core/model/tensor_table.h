// The tensors of a model's files by name, handed out once each, with their shapes checked.
#ifndef LUNA_CORE_MODEL_TENSOR_TABLE_H_
#define LUNA_CORE_MODEL_TENSOR_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/model/tensor.h"

namespace luna::model {

// A tensor as a file describes it. The reader has checked that the bytes lie inside the file.
struct FileTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first, each >= 1; rows are contiguous
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

// What keeps a model's bytes alive.
using Storage = std::vector<std::shared_ptr<const void>>;

// `bytes` zeroed bytes, aligned for any element, that live as long as `storage`.
std::byte* AllocateIn(Storage& storage, int64_t bytes);

// Loading only; one thread. Errors stick: after the first one every Take gives an empty tensor, and
// status() says what it was. INVALID_ARGUMENT names the tensor, its shape and the one expected.
class TensorTable {
 public:
  // INVALID_ARGUMENT for a name that is there already.
  absl::Status Add(std::string name, FileTensor tensor);

  bool Has(std::string_view name) const { return tensors_.count(name) != 0; }
  size_t size() const { return tensors_.size(); }

  // [rows, cols], as it lies in the file.
  Tensor TakeMatrix(const std::string& name, int64_t rows, int64_t cols);
  // [size], widened to F32 where the file has something else.
  Tensor TakeVector(const std::string& name, int64_t size);
  // The same, empty if the file does not have it.
  Tensor TakeVectorIfPresent(const std::string& name, int64_t size);
  // Marks a tensor that we know and do not need.
  void Ignore(std::string_view name);
  // Something else that is wrong with what was taken.
  void Fail(absl::Status status);

  const absl::Status& status() const { return status_; }
  // INVALID_ARGUMENT if a tensor was neither taken nor ignored: the file holds another
  // architecture.
  absl::Status CheckAllTaken() const;

  // Bytes and types of all tensors as stored: "Q4_1 x 210, F32 x 61".
  int64_t total_bytes() const { return total_bytes_; }
  std::string TypeSummary() const;

  // Buffers made while taking; append to it what else must live.
  Storage& storage() { return storage_; }

 private:
  const FileTensor* Take(const std::string& name);

  std::map<std::string, FileTensor, std::less<>> tensors_;
  std::set<std::string, std::less<>> taken_;
  int64_t total_bytes_ = 0;
  absl::Status status_;
  Storage storage_;
};

// Product of `shape`, or -1 if a dimension is not positive or the product exceeds int64.
int64_t NumElements(const std::vector<int64_t>& shape);

// Bytes of a tensor whose rows (the last dimension) are whole blocks; -1 if they are not or the
// product exceeds int64.
int64_t TensorBytes(DType dtype, const std::vector<int64_t>& shape);

// "[2, 3]"
std::string ShapeString(const std::vector<int64_t>& shape);

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_TENSOR_TABLE_H_
