// One table of kernels per instruction set; kernels.cc asks the machine before it touches one.
#ifndef LUNA_CORE_BACKEND_CPU_KERNEL_PATHS_H_
#define LUNA_CORE_BACKEND_CPU_KERNEL_PATHS_H_

#include "core/backend/cpu/kernels.h"

namespace luna::backend::cpu {

const Kernels& PortableKernels();
#if defined(__x86_64__)
const Kernels& Avx2Kernels();
const Kernels& AvxVnniKernels();
const Kernels& Avx512Kernels();
// dot_bf16: bf16 weights are multiplied with activations rounded to bf16, by AVX512_BF16's dot
// products, and not widened and multiplied in f32.
const Kernels& Avx512VnniKernels(bool dot_bf16);
#endif

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_KERNEL_PATHS_H_
