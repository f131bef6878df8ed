// Loops that do nothing but keep one kind of unit of a core busy, to measure what it can do at
// most.
#ifndef LUNA_TESTS_BENCHMARKS_PEAK_KERNELS_H_
#define LUNA_TESTS_BENCHMARKS_PEAK_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace luna::benchmarks {

// Multiplies and adds in registers: `operations` (a product and its sum are two) in each of
// `iterations`, on accumulators that do not wait for one another.
struct PeakLoop {
  const char* instruction = nullptr;  // null: this machine has none
  void (*run)(int64_t iterations) = nullptr;
  double operations = 0;  // of one iteration
};

struct PeakKernels {
  const char* path = nullptr;
  PeakLoop f32;
  PeakLoop bf16;  // pairs of bf16 summed in f32
  PeakLoop int8;  // unsigned by signed bytes summed in int32
  // Loads `size` bytes from `data`, a multiple of kReadBytes, aligned to 64; the result is a hash.
  uint64_t (*read)(const std::byte* data, size_t size) = nullptr;
};

inline constexpr size_t kReadBytes = 512;

#if defined(__x86_64__)
const PeakKernels& Avx2PeakKernels();
const PeakKernels& Avx512PeakKernels();      // without a dot product of bytes or bf16
const PeakKernels& Avx512VnniPeakKernels();  // with both
#endif
const PeakKernels& PortablePeakKernels();
// The best that this machine has.
const PeakKernels& BestPeakKernels();

}  // namespace luna::benchmarks

#endif  // LUNA_TESTS_BENCHMARKS_PEAK_KERNELS_H_
