#include "core/backend/cuda/kernels/kernel_set.cuh"

namespace luna::backend::cuda {
template ProductKernels MakeProductKernels<F32Format>();
}
