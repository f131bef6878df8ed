// AVX2 with FMA. All headers come before the target, so that no inline function of theirs is
// compiled for it and then shared with code that runs anywhere.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#include "tests/benchmarks/peak_kernels.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma")

namespace luna::benchmarks {
namespace {

constexpr int kSums = 12;

void RunF32(int64_t iterations) {
  __m256 sums[kSums];
#pragma GCC unroll 16
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  const __m256 a = _mm256_set1_ps(1.0f), b = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (__m256& sum : sums) asm volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  }
}

// Three instructions: bytes to pairs, pairs to fours, and the sum.
void RunInt8(int64_t iterations) {
  __m256i sums[kSums];
#pragma GCC unroll 16
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  const __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5), ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (__m256i& sum : sums) {
      __m256i fours;
      asm volatile(
          "vpmaddubsw %3, %2, %1\n\t"
          "vpmaddwd %4, %1, %1\n\t"
          "vpaddd %1, %0, %0"
          : "+x"(sum), "=&x"(fours)
          : "x"(a), "x"(b), "x"(ones));
    }
  }
}

uint64_t Read(const std::byte* data, size_t size) {
  __m256i sums[8];
#pragma GCC unroll 8
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (size_t i = 0; i < size; i += sizeof(sums)) {
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; ++j) {
      const auto* at = reinterpret_cast<const __m256i*>(data + i + j * sizeof(__m256i));
      sums[j] = _mm256_xor_si256(sums[j], _mm256_load_si256(at));
    }
  }
  uint64_t hash = 0;
#pragma GCC unroll 8
  for (const __m256i& sum : sums) hash ^= static_cast<uint64_t>(sum[0]);
  return hash;
}

}  // namespace

const PeakKernels& Avx2PeakKernels() {
  static constexpr PeakKernels kKernels = {
      .path = "avx2",
      .f32 = {.instruction = "vfmadd231ps", .run = RunF32, .operations = 2.0 * 8 * kSums},
      .bf16 = {},
      .int8 = {.instruction = "vpmaddubsw, vpmaddwd, vpaddd",
               .run = RunInt8,
               .operations = 2.0 * 32 * kSums},
      .read = Read};
  return kKernels;
}

}  // namespace luna::benchmarks

#pragma GCC pop_options
#endif  // __x86_64__
