#include "core/backend/cuda/kernels/kernel_set.cuh"

namespace luna::backend::cuda {
template std::vector<AttentionKernel> MakeAttentionKernels<F32Kv>();
}
