// Attention over one type of keys and values: apart, because it takes long to compile.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_ATTENTION_KERNELS_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_ATTENTION_KERNELS_CUH_

#include <vector>

#include "core/backend/cuda/kernel_set.h"
#include "core/backend/cuda/kernels/attention.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

template <typename Kv, int kDimTiles, int kColumnTiles>
AttentionKernel MakeAttention() {
  return {kDimTiles * kDimTile,
          kColumnTiles * kTileTokens,
          {{"Attention", KernelEntry<&Attention<Kv, kDimTiles, kColumnTiles>>(), kAttentionThreads},
           sizeof(AttentionShared<Kv, kDimTiles, kColumnTiles>)}};
}

template <typename Kv>
std::vector<AttentionKernel> MakeAttentionKernels() {
  std::vector<AttentionKernel> kernels = {MakeAttention<Kv, 4, 1>(),
                                          MakeAttention<Kv, 4, Kv::kWideColumnTiles>(),
                                          MakeAttention<Kv, 8, 1>()};
  if constexpr (Kv::kWideColumnTiles > 2) {
    kernels.push_back(MakeAttention<Kv, 8, Kv::kWideColumnTiles / 2>());
  }
  kernels.push_back(MakeAttention<Kv, 16, 1>());
  return kernels;
}

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_ATTENTION_KERNELS_CUH_
