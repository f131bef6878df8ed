// What platform.h calls, and how a kernel is called: the emulation as seen from inside a kernel.
#ifndef LUNA_TESTS_CUDA_EMULATION_KERNEL_CALLS_H_
#define LUNA_TESTS_CUDA_EMULATION_KERNEL_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "tests/cuda_emulation/undefined.h"

namespace luna::backend::cuda::emulation {

// Where in its grid a thread is.
struct Place {
  int thread = 0, block_threads = 0;
  int block_x = 0, block_y = 0, block_z = 0;
  int grid_x = 0;
  std::byte* shared = nullptr;
};

// Of the CUDA thread that runs on this thread of the system; null outside of kernels.
extern constinit thread_local Place* place;

using Where = std::source_location;

void AwaitEarlierKernels(Where where);
void SyncThreads(Where where);
void SyncWarp(Where where);
uint64_t ShuffleXor(uint64_t bits, int mask, Where where);
uint64_t ShuffleFrom(uint64_t bits, int lane, Where where);
void MmaBf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Where where);
uint32_t AtomicAdd(uint32_t* p, uint32_t value);
uint64_t AtomicAdd(uint64_t* p, uint64_t value);
void GlobalFence();

// One lane's row of the eight of a matrix of 16-bit values.
struct MatrixRow {
  uint64_t words[2];
};
// Stops where the row is not one of the block's shared memory.
void CheckMatrixRow(const void* row, Where where);
void SpreadMatrices(uint32_t (&r)[4], const MatrixRow& row, bool transposed, Where where);

struct Copy {
  void* shared;
  const void* global;
  bool there;  // else zeros
  Where where;
};
// Keeps a copy back; stops where it is misaligned or not into the block's shared memory.
void BeginCopy(const Copy& copy);
void CommitCopies();
// The next copy of the groups that must be done so that at most `pending` are under way; null if
// none is left.
const Copy* NextDueCopy(int pending);

template <typename T>
uint64_t Bits(T value) {
  static_assert((sizeof(T) == 4 || sizeof(T) == 8) && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <typename T>
T OfBits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// What a kernel's entry points to.
struct Entry {
  void (*call)(const void* args) = nullptr;  // runs the kernel in one thread of a block
  size_t args_bytes = 0;
};

template <typename Args>
constexpr size_t ArgsBytes(void (*)(Args)) {
  static_assert(std::is_trivially_copyable_v<Args>, "a kernel's argument is copied as bytes");
  static_assert(sizeof(Args) <= 4096, "more than a GPU takes");
  static_assert(alignof(Args) <= alignof(std::max_align_t));
  return sizeof(Args);
}
template <typename Args>
void CallWith(void (*kernel)(Args), const void* args) {
  kernel(*static_cast<const Args*>(args));
}

template <auto kKernel>
inline constexpr Entry kEntryOf = {[](const void* args) { CallWith(kKernel, args); },
                                   ArgsBytes(kKernel)};

}  // namespace luna::backend::cuda::emulation

#endif  // LUNA_TESTS_CUDA_EMULATION_KERNEL_CALLS_H_
