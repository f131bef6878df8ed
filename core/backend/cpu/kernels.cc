#include "core/backend/cpu/kernels.h"

#include <vector>

#include "core/backend/cpu/kernel_paths.h"

namespace luna::backend::cpu {
namespace {

std::vector<const Kernels*> FindKernels() {
  std::vector<const Kernels*> found = {&PortableKernels()};
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c")) {
    return found;
  }
  found.push_back(&Avx2Kernels());
  if (__builtin_cpu_supports("avxvnni")) found.push_back(&AvxVnniKernels());
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return found;
  }
  found.push_back(&Avx512Kernels());
  if (__builtin_cpu_supports("avx512vnni")) {
    // Intel's bf16 dot products run at half the rate of its f32 ones (docs/benchmarks.md).
    const bool dot_bf16 = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd");
    found.push_back(&Avx512VnniKernels(dot_bf16));
  }
#endif
  return found;
}

}  // namespace

std::span<const Kernels* const> AvailableKernels() {
  static const std::vector<const Kernels*> kFound = FindKernels();
  return kFound;
}

}  // namespace luna::backend::cpu
