#include "core/backend/cuda/kernels/kernel_set.cuh"
#include "core/backend/cuda/runtime/cuda_device.h"

namespace luna::backend::cuda {

extern template ProductKernels MakeProductKernels<F32Format>();
extern template ProductKernels MakeProductKernels<Bf16Format>();
extern template ProductKernels MakeProductKernels<Int8Format>();
extern template std::vector<AttentionKernel> MakeAttentionKernels<F32Kv>();
extern template std::vector<AttentionKernel> MakeAttentionKernels<Bf16Kv>();

const KernelSet& CompiledKernels() {
  static const KernelSet set = MakeKernelSet();
  return set;
}

}  // namespace luna::backend::cuda
