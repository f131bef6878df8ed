#include "core/backend/cpu/kernels.h"

#include <vector>

#include "core/backend/cpu/kernel_paths.h"

namespace luna::backend::cpu {
namespace {

std::vector<const Kernels*> FindKernels() {
  std::vector<const Kernels*> found = {&PortableKernels()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    found.push_back(&Avx2Kernels());
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    found.push_back(&Avx512Kernels());
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16")) {
      found.push_back(&Avx512VnniKernels());
    }
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
