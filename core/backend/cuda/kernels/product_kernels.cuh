// The products of one format: apart, because they take long to compile.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_PRODUCT_KERNELS_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_PRODUCT_KERNELS_CUH_

#include "core/backend/cuda/kernel_set.h"
#include "core/backend/cuda/kernels/product.cuh"

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

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_PRODUCT_KERNELS_CUH_
