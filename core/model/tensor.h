// A weight as it lies in the file: a type, a shape, bytes somebody else owns.
#ifndef LUNA_CORE_MODEL_TENSOR_H_
#define LUNA_CORE_MODEL_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace luna::model {

// Element types of safetensors and GGUF that we read. The block formats are GGML's: a row is a
// whole number of blocks (32 values; 256 for the K types).
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K
};

std::string_view DTypeName(DType dtype);
// Values in one block: 1 for F32, F16, BF16.
int BlockValues(DType dtype);
// Bytes of one block.
int BlockBytes(DType dtype);

// A matrix [rows, cols] row-major, or a vector [cols] with rows == 1. Each row is contiguous and,
// for block formats, a whole number of blocks. `data` is aligned for its element (4 bytes for F32,
// 2 for the rest). A view: valid as long as the Model that handed it out.
struct Tensor {
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* data = nullptr;

  explicit operator bool() const { return data != nullptr; }
  int64_t row_bytes() const { return cols / BlockValues(dtype) * BlockBytes(dtype); }
  int64_t bytes() const { return rows * row_bytes(); }
  const std::byte* row(int64_t r) const { return data + r * row_bytes(); }
};

// Widens `count` values of `dtype` at `source` to f32. `count` is a multiple of BlockValues(dtype).
// Formats: GGML block layouts as the GGUF specification describes them.
void DequantizeRow(DType dtype, const std::byte* source, int64_t count, float* out);

// All of `tensor` as f32, [rows, cols] row-major.
std::vector<float> Dequantize(const Tensor& tensor);

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_TENSOR_H_
