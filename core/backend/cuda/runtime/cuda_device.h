// A GPU behind the CUDA runtime, which is linked statically: a program that has this starts where
// there is no driver.
#ifndef LUNA_CORE_BACKEND_CUDA_RUNTIME_CUDA_DEVICE_H_
#define LUNA_CORE_BACKEND_CUDA_RUNTIME_CUDA_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/backend/cuda/device.h"
#include "core/backend/cuda/kernel_set.h"

namespace luna::backend::cuda {

// The first device of those that CUDA_VISIBLE_DEVICES leaves. UNAVAILABLE, with what the runtime
// says, where there is no driver, no device, or none that the kernels were compiled for (compute
// capability 8.0 and up).
absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice();

// Those that nvcc compiled.
const KernelSet& CompiledKernels();

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_RUNTIME_CUDA_DEVICE_H_
