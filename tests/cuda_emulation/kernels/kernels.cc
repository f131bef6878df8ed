#include "tests/cuda_emulation/kernels/kernels.h"

#include "tests/cuda_emulation/platform.h"
//
#include "core/backend/cuda/kernels/kernel_set.cuh"

namespace luna::backend::cuda {

const KernelSet& EmulatedKernels() {
  static const KernelSet set = MakeKernelSet();
  return set;
}

}  // namespace luna::backend::cuda
