// Instead of the rest of this directory where there is no nvcc.
#include "core/backend/cuda/runtime/cuda_device.h"

namespace luna::backend::cuda {

absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice() {
  return absl::NotFoundError(
      "no CUDA device: this server was built without CUDA (no nvcc that is new enough, or "
      "-DLUNA_CUDA=OFF)");
}

const KernelSet& CompiledKernels() {
  static const KernelSet none;
  return none;
}

}  // namespace luna::backend::cuda
