// AVX-512, with VNNI and BF16 in loops that only machines with both are given. All headers come
// before the target, so that no inline function of theirs is compiled for it and then shared with
// code that runs anywhere.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#include "tests/benchmarks/peak_kernels.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw")

namespace luna::benchmarks {
namespace {

constexpr int kSums = 24;

void RunF32(int64_t iterations) {
  __m512 sums[kSums];
#pragma GCC unroll 32
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512 a = _mm512_set1_ps(1.0f), b = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 32
    for (__m512& sum : sums) asm volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  }
}

// Pairs of ones: a bf16 one is 0x3f80.
void RunBf16(int64_t iterations) {
  __m512 sums[kSums];
#pragma GCC unroll 32
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512i ones = _mm512_set1_epi16(0x3f80);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 32
    for (__m512& sum : sums) asm volatile("vdpbf16ps %1, %1, %0" : "+v"(sum) : "v"(ones));
  }
}

void RunVnni(int64_t iterations) {
  __m512i sums[kSums];
#pragma GCC unroll 32
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 32
    for (__m512i& sum : sums) asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  }
}

// Three instructions: bytes to pairs, pairs to fours, and the sum.
void RunInt8(int64_t iterations) {
  constexpr int kInt8Sums = 12;
  __m512i sums[kInt8Sums];
#pragma GCC unroll 16
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5), ones = _mm512_set1_epi16(1);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (__m512i& sum : sums) {
      __m512i fours;
      asm volatile(
          "vpmaddubsw %3, %2, %1\n\t"
          "vpmaddwd %4, %1, %1\n\t"
          "vpaddd %1, %0, %0"
          : "+v"(sum), "=&v"(fours)
          : "v"(a), "v"(b), "v"(ones));
    }
  }
}

uint64_t Read(const std::byte* data, size_t size) {
  __m512i sums[8];
#pragma GCC unroll 8
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (size_t i = 0; i < size; i += sizeof(sums)) {
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; ++j) {
      sums[j] = _mm512_xor_si512(sums[j], _mm512_load_si512(data + i + j * sizeof(__m512i)));
    }
  }
  uint64_t hash = 0;
#pragma GCC unroll 8
  for (const __m512i& sum : sums) hash ^= static_cast<uint64_t>(sum[0]);
  return hash;
}

constexpr PeakLoop kF32 = {
    .instruction = "vfmadd231ps", .run = RunF32, .operations = 2.0 * 16 * kSums};

}  // namespace

const PeakKernels& Avx512PeakKernels() {
  static constexpr PeakKernels kKernels = {.path = "avx512",
                                           .f32 = kF32,
                                           .bf16 = {},
                                           .int8 = {.instruction = "vpmaddubsw, vpmaddwd, vpaddd",
                                                    .run = RunInt8,
                                                    .operations = 2.0 * 64 * 12},
                                           .read = Read};
  return kKernels;
}

const PeakKernels& Avx512VnniPeakKernels() {
  static constexpr PeakKernels kKernels = {
      .path = "avx512vnni",
      .f32 = kF32,
      .bf16 = {.instruction = "vdpbf16ps", .run = RunBf16, .operations = 2.0 * 32 * kSums},
      .int8 = {.instruction = "vpdpbusd", .run = RunVnni, .operations = 2.0 * 64 * kSums},
      .read = Read};
  return kKernels;
}

}  // namespace luna::benchmarks

#pragma GCC pop_options
#endif  // __x86_64__
