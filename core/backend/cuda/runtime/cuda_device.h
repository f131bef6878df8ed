// A GPU behind the CUDA runtime, which is linked statically: a program that has this starts where
// there is no driver.
#ifndef LUNA_CORE_BACKEND_CUDA_RUNTIME_CUDA_DEVICE_H_
#define LUNA_CORE_BACKEND_CUDA_RUNTIME_CUDA_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/backend/cuda/device.h"
#include "core/backend/cuda/kernel_set.h"

namespace luna::backend::cuda {

// The first device of those that CUDA_VISIBLE_DEVICES leaves. NOT_FOUND where there is no driver,
// no device or no CUDA in this build; UNAVAILABLE, with the reason, where what is there cannot be
// used (an older driver than the runtime needs, a compute capability below 8.0).
absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice();

// Those that nvcc compiled.
const KernelSet& CompiledKernels();

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_RUNTIME_CUDA_DEVICE_H_
