// The one list of the kernels, for whoever compiles them.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_KERNEL_SET_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_KERNEL_SET_CUH_

#include "core/backend/cuda/kernel_set.h"
#include "core/backend/cuda/kernels/attention_kernels.cuh"
#include "core/backend/cuda/kernels/product_kernels.cuh"
#include "core/backend/cuda/kernels/rows.cuh"
#include "core/backend/cuda/kernels/sampling.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

inline KernelSet MakeKernelSet() {
  KernelSet set;
  set.f32_product = MakeProductKernels<F32Format>();
  set.bf16_product = MakeProductKernels<Bf16Format>();
  set.int8_product = MakeProductKernels<Int8Format>();
  set.f32_attention = MakeAttentionKernels<F32Kv>();
  set.bf16_attention = MakeAttentionKernels<Bf16Kv>();
  set.embed = {"Embed", KernelEntry<&Embed>(), kRowThreads};
  set.add_norm = {{"AddNorm", KernelEntry<&AddNorm>(), kRowThreads}, sizeof(Statistics)};
  set.finish_normed_heads = {"FinishNormedHeads", KernelEntry<&FinishNormedHeads>(), kRowThreads};
  set.sample = {{"SampleRows", KernelEntry<&SampleRows<kSampleThreads>>(), kSampleThreads},
                kSampleSharedBytes<kSampleThreads>};
  return set;
}

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_KERNEL_SET_CUH_
