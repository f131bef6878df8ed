#include "core/backend/cuda/kernels/product_kernels.cuh"

namespace luna::backend::cuda {
template ProductKernels MakeProductKernels<Int8Format>();
}
