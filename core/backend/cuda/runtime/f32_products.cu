#include "core/backend/cuda/kernels/product_kernels.cuh"

namespace luna::backend::cuda {
template ProductKernels MakeProductKernels<F32Format>();
}
