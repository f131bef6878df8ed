// The one list of the kernels, for whoever compiles them.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_KERNEL_SET_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_KERNEL_SET_CUH_

#include "core/backend/cuda/kernel_set.h"
#include "core/backend/cuda/kernels/attention.cuh"
#include "core/backend/cuda/kernels/product.cuh"
#include "core/backend/cuda/kernels/rows.cuh"
#include "core/backend/cuda/kernels/sampling.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

template <typename Format, int kColumnTiles>
SizedKernel MakeNarrowProduct() {
  return {{"NarrowProduct", KernelEntry<&NarrowProduct<Format, kColumnTiles>>(), kProductThreads},
          sizeof(NarrowShared<kColumnTiles>)};
}

template <typename Format>
ProductKernels MakeProductKernels() {
  ProductKernels kernels;
  kernels.narrow = {MakeNarrowProduct<Format, 1>(), MakeNarrowProduct<Format, 2>(),
                    MakeNarrowProduct<Format, 4>(), MakeNarrowProduct<Format, 8>()};
  kernels.wide = {{"WideProduct", KernelEntry<&WideProduct<Format>>(), kProductThreads},
                  sizeof(WideShared)};
  kernels.wide_tiles = kWideTiles;
  kernels.wide_tokens = kWideColumns;
  return kernels;
}

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

// What takes long to compile is instantiated in files of its own (../runtime/*.cu).
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
