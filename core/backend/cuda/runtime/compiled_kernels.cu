#include "core/backend/cuda/kernels/attention_kernels.cuh"
#include "core/backend/cuda/kernels/product_kernels.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

// Each in a file of its own.
extern template ProductKernels MakeProductKernels<F32Format>();
extern template ProductKernels MakeProductKernels<Bf16Format>();
extern template ProductKernels MakeProductKernels<Int8Format>();
extern template std::vector<AttentionKernel> MakeAttentionKernels<F32Kv>();
extern template std::vector<AttentionKernel> MakeAttentionKernels<Bf16Kv>();

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

// Behind them: it uses all.
#include "core/backend/cuda/kernels/kernel_set.cuh"
#include "core/backend/cuda/runtime/cuda_device.h"

namespace luna::backend::cuda {

const KernelSet& CompiledKernels() {
  static const KernelSet set = MakeKernelSet();
  return set;
}

}  // namespace luna::backend::cuda
