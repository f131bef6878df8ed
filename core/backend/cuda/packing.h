// Weights in the order in which the kernels read them (kernels/formats.cuh).
#ifndef LUNA_CORE_BACKEND_CUDA_PACKING_H_
#define LUNA_CORE_BACKEND_CUDA_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/cuda/step_layout.h"
#include "core/model/model.h"

namespace luna::backend::cuda {

// One row of a tile: an output of `tensor`, or nothing, whose weights are 0.
struct RowRef {
  const model::Tensor* tensor = nullptr;
  int64_t row = 0;
  const model::Tensor* bias = nullptr;  // [rows of tensor], f32; null or empty: none
};

// Rows in the order of their tiles, each a multiple of kTileRows long.
//
// One tensor after the other, the last tile filled up.
std::vector<RowRef> StackedRows(
    const std::vector<std::pair<const model::Tensor*, const model::Tensor*>>& tensors);
// Eight rows of `gate`, then the same of `up`.
std::vector<RowRef> GatedRows(const model::Tensor& gate, const model::Tensor& up);
// Heads of `head_dim` rows, each in padded_dim / kTileRows tiles. `rotated`: a tile has the rows
// (i, i + head_dim / 2) eight apart.
std::vector<RowRef> HeadRows(const model::Tensor& tensor, const model::Tensor& bias, int head_dim,
                             bool rotated);

// How many inputs a matrix has with the zeros that fill up its last group.
constexpr int RoundUpToGroup(int inputs) { return GroupsOf(inputs) * kGroupInputs; }

// The bytes of one tile's weights for one group.
int64_t GroupBytes(WeightsFormat format);

// Packs kTileRows rows of `inputs` weights: GroupsOf(inputs) groups of GroupBytes, and for int8
// [groups, kTileRows] scales. `rows` [kTileRows, inputs] row-major. f32, bf16 or int8.
void PackTile(WeightsFormat format, const float* rows, int inputs, std::byte* out, float* scales);

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_PACKING_H_
