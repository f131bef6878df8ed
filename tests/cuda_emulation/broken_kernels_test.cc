// What a kernel may not do stops the program and says where.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cuda_emulation/platform.h"
// The kernels' own header comes behind the platform.
#include "core/backend/cuda/kernels/platform.cuh"
#include "tests/cuda_emulation/run_kernel.h"

namespace luna::backend::cuda {
namespace {

struct Args {
  float* data;  // [256], aligned to 16 bytes
};

template <auto kKernel>
void RunBroken() {
  alignas(16) float data[256] = {};
  RunKernel<kKernel>({1}, 64, 1024, Args{data});
}

std::string Line(int line) { return absl::StrCat("broken_kernels_test.cc:", line, "\\)"); }

constexpr int kWithoutOne = __LINE__ + 3;
constexpr int kAlone = __LINE__ + 3;
LUNA_KERNEL void OneLaneAtBarrier(Args args) {
  if (ThreadIndex() != 37) args.data[ThreadIndex()] = ShuffleXor(1.0f, 1);
  SyncThreads();
}

TEST(BrokenKernelsTest, LanesAtDifferentOperationsAreNamedWithBoth) {
  EXPECT_DEATH(RunBroken<&OneLaneAtBarrier>(),
               absl::StrCat("kernel tested, block \\(0, 0, 0\\): the threads part: thread .*is at "
                            "(SyncThreads.*",
                            Line(kAlone), ", but thread .*is at ShuffleXor.*", Line(kWithoutOne),
                            "|ShuffleXor.*", Line(kWithoutOne),
                            ", but thread 37 is at SyncThreads.*", Line(kAlone), ")"));
}

LUNA_KERNEL void TwoBarriers(Args) {
  if (ThreadIndex() < 32) {
    SyncThreads();
  } else {
    SyncThreads();
  }
}

TEST(BrokenKernelsTest, BarriersInTwoPlacesAreTwo) {
  EXPECT_DEATH(RunBroken<&TwoBarriers>(), "thread .* is at SyncThreads .*but thread .* is at Sync");
}

LUNA_KERNEL void WarpReturns(Args) {
  if (ThreadIndex() < 32) return;
  SyncThreads();
}

TEST(BrokenKernelsTest, WhoReturnsDoesNotComeToABarrier) {
  EXPECT_DEATH(RunBroken<&WarpReturns>(),
               "thread .*(has returned, but thread .* is at SyncThreads|is at SyncThreads .*but "
               "thread .* has returned)");
}

LUNA_KERNEL void LaneReturns(Args args) {
  if (ThreadIndex() == 5) return;
  args.data[ThreadIndex()] = ShuffleFrom(1.0f, 0);
}

TEST(BrokenKernelsTest, WhoReturnsDoesNotComeToAWarpOperation) {
  EXPECT_DEATH(RunBroken<&LaneReturns>(),
               "thread .*(5 has returned, but thread .* is at ShuffleFrom|is at ShuffleFrom .*but "
               "thread 5 has returned)");
}

LUNA_KERNEL void ShuffleFromNowhere(Args args) { args.data[ThreadIndex()] = ShuffleFrom(1.0f, 32); }

TEST(BrokenKernelsTest, LanesAreBelow32) {
  EXPECT_DEATH(RunBroken<&ShuffleFromNowhere>(), "thread .*: ShuffleFrom lane 32 at .*:[0-9]+");
}

LUNA_KERNEL void CopyWithoutWait(Args args) {
  CopyAsync16(SharedMemory() + ThreadIndex() * 16, args.data, true);
  CommitCopies();
  CommitCopies();
  WaitCopies<2>();
}

LUNA_KERNEL void CopyWithoutCommit(Args args) {
  CopyAsync16(SharedMemory() + ThreadIndex() * 16, args.data, true);
  WaitCopies<0>();
}

TEST(BrokenKernelsTest, NoCopyIsUnderWayAtTheEnd) {
  EXPECT_DEATH(RunBroken<&CopyWithoutWait>(), "returns before WaitCopies for a copy that began");
  EXPECT_DEATH(RunBroken<&CopyWithoutCommit>(), "returns before WaitCopies for a copy that began");
}

LUNA_KERNEL void CopyToOddPlace(Args args) {
  CopyAsync16(SharedMemory() + ThreadIndex() * 16 + 8, args.data, true);
  WaitCopies<0>();
}

LUNA_KERNEL void CopyFromOddPlace(Args args) {
  CopyAsync16(SharedMemory(), args.data + 1, true);
  WaitCopies<0>();
}

LUNA_KERNEL void CopyBehindTheEnd(Args args) {
  CopyAsync16(SharedMemory() + 1024, args.data, true);
  WaitCopies<0>();
}

TEST(BrokenKernelsTest, CopiesAreAlignedAndIntoSharedMemory) {
  EXPECT_DEATH(RunBroken<&CopyToOddPlace>(),
               "CopyAsync16 of misaligned shared memory, byte [0-9]+ at");
  EXPECT_DEATH(RunBroken<&CopyFromOddPlace>(), "CopyAsync16 of misaligned global memory at");
  EXPECT_DEATH(RunBroken<&CopyBehindTheEnd>(),
               "CopyAsync16 of bytes 1024 to 1040 of 1024 of shared memory");
}

LUNA_KERNEL void LoadOddRows(Args args) {
  uint32_t r[4];
  LoadMatrices(r, SharedMemory() + ThreadIndex() % 32 * 24);
  args.data[ThreadIndex()] = static_cast<float>(r[0]);
}

LUNA_KERNEL void LoadGlobalRows(Args args) {
  uint32_t r[4];
  LoadMatricesTransposed(r, args.data);
  args.data[ThreadIndex()] = static_cast<float>(r[0]);
}

TEST(BrokenKernelsTest, RowsOfMatricesAreAlignedAndInSharedMemory) {
  EXPECT_DEATH(RunBroken<&LoadOddRows>(), "LoadMatrices of misaligned shared memory");
  EXPECT_DEATH(RunBroken<&LoadGlobalRows>(), "LoadMatrices of bytes .* of shared memory");
}

}  // namespace
}  // namespace luna::backend::cuda
