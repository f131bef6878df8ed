#include "core/base/check.h"
#include "core/model/tensor.h"

namespace luna::model {
namespace {

struct Format {
  DType dtype;
  std::string_view name;
  int block_values;
  int block_bytes;
};

// In the order of DType.
constexpr Format kFormats[] = {
    {DType::kF32, "F32", 1, 4},       {DType::kF16, "F16", 1, 2},
    {DType::kBF16, "BF16", 1, 2},     {DType::kQ8_0, "Q8_0", 32, 34},
    {DType::kQ4_0, "Q4_0", 32, 18},   {DType::kQ4_1, "Q4_1", 32, 20},
    {DType::kQ5_0, "Q5_0", 32, 22},   {DType::kQ5_1, "Q5_1", 32, 24},
    {DType::kQ4_K, "Q4_K", 256, 144}, {DType::kQ5_K, "Q5_K", 256, 176},
    {DType::kQ6_K, "Q6_K", 256, 210},
};

const Format& FormatOf(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  LUNA_CHECK_LT(index, std::size(kFormats));
  return kFormats[index];
}

}  // namespace

std::string_view DTypeName(DType dtype) { return FormatOf(dtype).name; }
int BlockValues(DType dtype) { return FormatOf(dtype).block_values; }
int BlockBytes(DType dtype) { return FormatOf(dtype).block_bytes; }

}  // namespace luna::model
