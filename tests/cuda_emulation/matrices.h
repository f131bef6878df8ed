// The arithmetic of warp-wide matrix operations, for all lanes at once.
#ifndef LUNA_TESTS_CUDA_EMULATION_MATRICES_H_
#define LUNA_TESTS_CUDA_EMULATION_MATRICES_H_

#include <array>
#include <cstdint>

#include "tests/cuda_emulation/kernel_calls.h"
#include "tests/cuda_emulation/team.h"

namespace luna::backend::cuda::emulation {

// What one lane brings. Fragments as kernels/platform.cuh lays them out.
struct MmaOperands {
  float* c;           // [4], read and written
  const uint32_t* a;  // [4]
  const uint32_t* b;  // [2]
};
struct MatrixOperands {
  uint32_t* r;  // [4], written
  const MatrixRow* row;
};

// [kLanes] pointers to each lane's.
void Multiply(const std::array<void*, kLanes>& lanes);
void Spread(const std::array<void*, kLanes>& lanes, bool transposed);

}  // namespace luna::backend::cuda::emulation

#endif  // LUNA_TESTS_CUDA_EMULATION_MATRICES_H_
