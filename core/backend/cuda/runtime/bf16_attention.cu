#include "core/backend/cuda/kernels/attention_kernels.cuh"

namespace luna::backend::cuda {
template std::vector<AttentionKernel> MakeAttentionKernels<Bf16Kv>();
}
