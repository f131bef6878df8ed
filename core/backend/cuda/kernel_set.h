// All kernels of one build: those that nvcc made, or, in tests, those of the emulation.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNEL_SET_H_
#define LUNA_CORE_BACKEND_CUDA_KERNEL_SET_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/backend/cuda/device.h"

namespace luna::backend::cuda {

// A kernel and the shared memory that its blocks need.
struct SizedKernel {
  Kernel kernel;
  int64_t shared_bytes = 0;
};

// ProductArgs.
struct ProductKernels {
  // narrow[i] takes up to kNarrowTokens[i] tokens.
  static constexpr std::array<int, 4> kNarrowTokens = {8, 16, 32, 64};
  std::array<SizedKernel, 4> narrow;
  SizedKernel wide;
  int wide_tiles = 0, wide_tokens = 0;  // of a block
};

// AttentionArgs.
struct AttentionKernel {
  int max_head_dim = 0;
  int columns = 0;  // tokens of an item times query heads of a KV head
  SizedKernel sized;
};

struct KernelSet {
  ProductKernels f32_product, bf16_product, int8_product;
  // By head size, then by columns, both ascending.
  std::vector<AttentionKernel> f32_attention, bf16_attention;
  Kernel embed;                // EmbedArgs
  SizedKernel add_norm;        // AddNormArgs
  Kernel finish_normed_heads;  // FinishHeadsArgs
  SizedKernel sample;          // SampleArgs
};

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNEL_SET_H_
