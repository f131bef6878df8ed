// The choice of path, and the path of a machine that has none of the others.
#include "tests/benchmarks/peak_kernels.h"

#include <cstring>

namespace luna::benchmarks {
namespace {

constexpr int kSums = 12;
using Vec = float __attribute__((vector_size(16)));
using Word = uint64_t __attribute__((vector_size(16)));

// Opaque to the compiler, so that neither the loop nor its products can be taken out.
template <typename T>
void Keep(T& value) {
  asm volatile("" : "+m"(value));
}

void RunF32(int64_t iterations) {
  Vec sums[kSums] = {};
  Vec a = {1, 1, 1, 1}, b = {1, 1, 1, 1};
  Keep(a);
  Keep(b);
  for (int64_t i = 0; i < iterations; ++i) {
    for (Vec& sum : sums) sum += a * b;
  }
  for (Vec& sum : sums) Keep(sum);
}

uint64_t Read(const std::byte* data, size_t size) {
  Word sums[8] = {};
  for (size_t i = 0; i < size; i += sizeof(sums)) {
    Word words[8];
    std::memcpy(words, data + i, sizeof(words));
    for (int j = 0; j < 8; ++j) sums[j] ^= words[j];
  }
  for (int j = 1; j < 8; ++j) sums[0] ^= sums[j];
  return sums[0][0] ^ sums[0][1];
}

}  // namespace

const PeakKernels& PortablePeakKernels() {
  static constexpr PeakKernels kKernels = {
      .path = "portable",
      .f32 = {.instruction = "multiply, add", .run = RunF32, .operations = 2.0 * 4 * kSums},
      .bf16 = {},
      .int8 = {},
      .read = Read};
  return kKernels;
}

const PeakKernels& BestPeakKernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
    const bool dots = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
    return dots ? Avx512VnniPeakKernels() : Avx512PeakKernels();
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Avx2PeakKernels();
#endif
  return PortablePeakKernels();
}

}  // namespace luna::benchmarks
