// Reads the safetensors format: an 8-byte little-endian header length, a JSON header that maps
// names to dtype, shape and data_offsets (relative to the end of the header), then the data.
#ifndef LUNA_CORE_MODEL_SAFETENSORS_H_
#define LUNA_CORE_MODEL_SAFETENSORS_H_

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/tensor_table.h"

namespace luna::model {

using NamedTensor = std::pair<std::string, FileTensor>;

// Tensors of the file whose bytes are `file`, as views into it, in the order of their offsets.
// Every offset is checked: inside the file, equal to what shape and dtype need, no two overlapping.
// INVALID_ARGUMENT names the tensor, the value and the limit; UNIMPLEMENTED a dtype other than F32,
// F16 and BF16. `name` is the file's, for messages.
absl::StatusOr<std::vector<NamedTensor>> ParseSafetensors(std::span<const std::byte> file,
                                                          const std::string& name);

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_SAFETENSORS_H_
