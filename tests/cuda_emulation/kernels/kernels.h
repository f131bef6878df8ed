// The backend's kernels, compiled for the emulation.
#ifndef LUNA_TESTS_CUDA_EMULATION_KERNELS_KERNELS_H_
#define LUNA_TESTS_CUDA_EMULATION_KERNELS_KERNELS_H_

#include "core/backend/cuda/kernel_set.h"

namespace luna::backend::cuda {

const KernelSet& EmulatedKernels();

}  // namespace luna::backend::cuda

#endif  // LUNA_TESTS_CUDA_EMULATION_KERNELS_KERNELS_H_
