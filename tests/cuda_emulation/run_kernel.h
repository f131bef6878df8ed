// Runs a kernel without a device. Behind platform.h.
#ifndef LUNA_TESTS_CUDA_EMULATION_RUN_KERNEL_H_
#define LUNA_TESTS_CUDA_EMULATION_RUN_KERNEL_H_

#include <cstdint>

#include "core/backend/cuda/device.h"
#include "tests/cuda_emulation/grid_runner.h"
#include "tests/cuda_emulation/platform.h"

namespace luna::backend::cuda {

template <auto kKernel, typename Args>
void RunKernel(const Grid& grid, int threads, int64_t shared_bytes, const Args& args,
               uint64_t seed = 1) {
  emulation::GridRunner runner(seed);
  runner.Run({"tested", KernelEntry<kKernel>(), threads}, grid, shared_bytes, &args);
}

}  // namespace luna::backend::cuda

#endif  // LUNA_TESTS_CUDA_EMULATION_RUN_KERNEL_H_
