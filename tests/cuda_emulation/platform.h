// What kernels may use of the machine (core/backend/cuda/kernels/platform.cuh), on a CPU: included
// before the kernels by a translation unit that g++ compiles. What each function does is said
// there; what is undefined there stops the program here, with the kernel, block, thread and place.
// Matrix products are plain f32 sums, so their last bits are not a GPU's.
#ifndef LUNA_TESTS_CUDA_EMULATION_PLATFORM_H_
#define LUNA_TESTS_CUDA_EMULATION_PLATFORM_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "core/backend/rounding.h"
#include "tests/cuda_emulation/kernel_calls.h"

#define LUNA_CUDA_PLATFORM
#define LUNA_KERNELS emulated
#define LUNA_KERNEL inline
#define LUNA_DEVICE inline
#define LUNA_BLOCK_OF(threads, blocks)

namespace luna::backend::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

LUNA_DEVICE int ThreadIndex() { return emulation::place->thread; }
LUNA_DEVICE int BlockThreads() { return emulation::place->block_threads; }
LUNA_DEVICE int BlockIndexX() { return emulation::place->block_x; }
LUNA_DEVICE int BlockIndexY() { return emulation::place->block_y; }
LUNA_DEVICE int BlockIndexZ() { return emulation::place->block_z; }
LUNA_DEVICE int GridX() { return emulation::place->grid_x; }

LUNA_DEVICE std::byte* SharedMemory() { return emulation::place->shared; }

LUNA_DEVICE void AwaitEarlierKernels(std::source_location where = std::source_location::current()) {
  emulation::AwaitEarlierKernels(where);
}

LUNA_DEVICE void SyncThreads(std::source_location where = std::source_location::current()) {
  emulation::SyncThreads(where);
}
LUNA_DEVICE void SyncWarp(std::source_location where = std::source_location::current()) {
  emulation::SyncWarp(where);
}

template <typename T>
LUNA_DEVICE T ShuffleXor(T value, int mask,
                         std::source_location where = std::source_location::current()) {
  return emulation::OfBits<T>(emulation::ShuffleXor(emulation::Bits(value), mask, where));
}
template <typename T>
LUNA_DEVICE T ShuffleFrom(T value, int lane,
                          std::source_location where = std::source_location::current()) {
  return emulation::OfBits<T>(emulation::ShuffleFrom(emulation::Bits(value), lane, where));
}

LUNA_DEVICE void MmaBf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                         std::source_location where = std::source_location::current()) {
  emulation::MmaBf16(c, a, b, where);
}

// What a kernel reads and writes in memory is done in these functions, not behind them: a sanitizer
// that finds fault with it then names the kernel's line.
namespace emulation {
inline void LoadMatrices(uint32_t (&r)[4], const void* address, bool transposed, Where where) {
  CheckMatrixRow(address, where);
  MatrixRow row;
  std::memcpy(&row, address, sizeof(row));
  SpreadMatrices(r, row, transposed, where);
}
}  // namespace emulation

LUNA_DEVICE void LoadMatrices(uint32_t (&r)[4], const void* row,
                              std::source_location where = std::source_location::current()) {
  emulation::LoadMatrices(r, row, /*transposed=*/false, where);
}
LUNA_DEVICE void LoadMatricesTransposed(
    uint32_t (&r)[4], const void* row,
    std::source_location where = std::source_location::current()) {
  emulation::LoadMatrices(r, row, /*transposed=*/true, where);
}

LUNA_DEVICE uint32_t TransposeMatrix(uint32_t pair,
                                     std::source_location where = std::source_location::current()) {
  // Row r, columns c and the next are lane 4 r + c / 2's.
  const int lane = ThreadIndex() % kWarpSize, row = lane / 4, column = lane % 4 * 2;
  const uint32_t first = ShuffleFrom(pair, column * 4 + row / 2, where);
  const uint32_t second = ShuffleFrom(pair, (column + 1) * 4 + row / 2, where);
  const int shift = row % 2 * 16;
  return (first >> shift & 0xffffu) | second >> shift << 16;
}

LUNA_DEVICE uint32_t PackBf16(float low, float high) {
  return uint32_t{ToBf16(high)} << 16 | ToBf16(low);
}

// The destination is undefined at once and gets its bytes when WaitCopies says that it must have
// them; the source is read then.
LUNA_DEVICE void CopyAsync16(void* shared, const void* global, bool there,
                             std::source_location where = std::source_location::current()) {
  emulation::BeginCopy({shared, global, there, where});
#if defined(__SANITIZE_ADDRESS__)
  // Beyond an allocation it is wrong here already, not where it is waited for.
  if (there) {
    static_cast<void>(static_cast<const volatile uint64_t*>(global)[0]);
    static_cast<void>(static_cast<const volatile uint64_t*>(global)[1]);
  }
#endif
  static_cast<uint64_t*>(shared)[0] = emulation::kUndefined;
  static_cast<uint64_t*>(shared)[1] = emulation::kUndefined;
}
LUNA_DEVICE void CommitCopies() { emulation::CommitCopies(); }
template <int kPending>
LUNA_DEVICE void WaitCopies() {
  static_assert(kPending >= 0);
  while (const emulation::Copy* copy = emulation::NextDueCopy(kPending)) {
    if (copy->there) {
      std::memcpy(copy->shared, copy->global, 16);
    } else {
      std::memset(copy->shared, 0, 16);
    }
  }
}

LUNA_DEVICE uint32_t AtomicAdd(uint32_t* p, uint32_t value) {
  return emulation::AtomicAdd(p, value);
}
LUNA_DEVICE uint64_t AtomicAdd(uint64_t* p, uint64_t value) {
  return emulation::AtomicAdd(p, value);
}
LUNA_DEVICE void GlobalFence() { emulation::GlobalFence(); }

LUNA_DEVICE float LoadFresh(const float* p) { return *p; }

template <auto kKernel>
const void* KernelEntry() {
  return &emulation::kEntryOf<kKernel>;
}

}  // namespace luna::backend::cuda

#endif  // LUNA_TESTS_CUDA_EMULATION_PLATFORM_H_
