// The backend that computes on a GPU: weights, KV pool, sampling and all that a step needs are in
// the device's memory, and a step is one graph of kernels.
#ifndef LUNA_CORE_BACKEND_CUDA_CUDA_BACKEND_H_
#define LUNA_CORE_BACKEND_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "core/backend/cuda/device.h"
#include "core/backend/cuda/kernel_set.h"
#include "core/model/model.h"

namespace luna::backend {

// Weights: f32, bf16 (unset: this) or int8; keys and values: f32 or bf16 (unset: this). Two steps
// may be in flight. num_threads has no meaning here. INVALID_ARGUMENT for other formats or a code
// path; RESOURCE_EXHAUSTED if the device's memory does not suffice; UNIMPLEMENTED for heads that no
// kernel takes. `kernels` must last.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(std::shared_ptr<const model::Model> model,
                                                         const BackendOptions& options,
                                                         std::unique_ptr<cuda::Device> device,
                                                         const cuda::KernelSet& kernels);

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_CUDA_CUDA_BACKEND_H_
