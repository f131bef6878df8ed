// Bugs that give the right numbers here, or might, and that a sanitizer has to name: each kernel is
// right with `args.broken` false.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cuda_emulation/platform.h"
// The kernels' own header comes behind the platform.
#include "core/backend/cuda/kernels/platform.cuh"
#include "tests/cuda_emulation/run_kernel.h"

// As ./dev test sets them.
#if defined(LUNA_EMULATION_ASAN)
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "detect_stack_use_after_return=1"; }
#endif
#if defined(LUNA_EMULATION_TSAN)
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }
#endif

namespace luna::backend::cuda {
namespace {

constexpr int kThreads = 64;

struct Args {
  float* data;      // [2, kThreads, 4], aligned to 16 bytes
  uint32_t* count;  // of blocks that are done
  bool broken;
};

template <auto kKernel>
void RunSeeded(bool broken, int blocks = 1, int64_t shared_bytes = kThreads * 16) {
  std::vector<float> data(2 * kThreads * 4, 1.0f);
  uint32_t count = 0;
  RunKernel<kKernel>({blocks}, kThreads, shared_bytes, Args{data.data(), &count, broken});
}

// The broken kernels run only where a sanitizer has to name them.
#if defined(LUNA_EMULATION_TSAN)
// A data race, one of whose two accesses is in `line` of this file.
#define EXPECT_RACE(statement, line)       \
  EXPECT_DEATH((statement, std::_Exit(0)), \
               absl::StrCat("ThreadSanitizer: data race(.|\n)*seeded_bugs_test.cc:", line, " "))
#else
#define EXPECT_RACE(statement, line) static_assert(line > 0)
#endif
#if defined(LUNA_EMULATION_ASAN)
#define EXPECT_ADDRESS_ERROR(statement, matcher) EXPECT_DEATH(statement, matcher)
#else
#define EXPECT_ADDRESS_ERROR(statement, matcher) static_assert(true)
#endif

// --- barriers ------------------------------------------------------------------------------------

constexpr int kReadOfOther = __LINE__ + 5;
LUNA_KERNEL void MissingBarrier(Args args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  tile[ThreadIndex()] = args.data[ThreadIndex()];
  if (!args.broken) SyncThreads();
  args.data[ThreadIndex()] = tile[ThreadIndex() ^ 33];
}

TEST(SeededBugsTest, AMissingBarrierIsARace) {
  RunSeeded<&MissingBarrier>(false);
  EXPECT_RACE(RunSeeded<&MissingBarrier>(true), kReadOfOther);
}

constexpr int kOverwrite = __LINE__ + 5;
LUNA_KERNEL void MissingSecondBarrier(Args args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  float sum = 0;
  for (int i = 0; i < 2; ++i) {
    tile[ThreadIndex()] = args.data[i * kThreads + ThreadIndex()];
    SyncThreads();
    sum += tile[ThreadIndex() ^ 33];
    if (!args.broken) SyncThreads();
  }
  args.data[ThreadIndex()] = sum;
}

TEST(SeededBugsTest, AMissingBarrierBeforeATileIsWrittenAgainIsARace) {
  RunSeeded<&MissingSecondBarrier>(false);
  EXPECT_RACE(RunSeeded<&MissingSecondBarrier>(true), kOverwrite);
}

constexpr int kReadOfLane = __LINE__ + 6;
LUNA_KERNEL void MissingWarpBarrier(Args args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  tile[ThreadIndex()] = args.data[ThreadIndex()];
  const float other = ShuffleXor(args.data[ThreadIndex()], 1);
  if (!args.broken) SyncWarp();
  args.data[ThreadIndex()] = tile[ThreadIndex() ^ 1] + other;
}

TEST(SeededBugsTest, AShuffleIsNoBarrier) {
  RunSeeded<&MissingWarpBarrier>(false);
  EXPECT_RACE(RunSeeded<&MissingWarpBarrier>(true), kReadOfLane);
}

// --- copies --------------------------------------------------------------------------------------

constexpr int kReadOfCopy = __LINE__ + 7;
LUNA_KERNEL void CopyWithoutBarrier(Args args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  CopyAsync16(tile + ThreadIndex() * 4, args.data + ThreadIndex() * 4, true);
  CommitCopies();
  WaitCopies<0>();
  if (!args.broken) SyncThreads();
  args.data[ThreadIndex() * 4] = tile[(ThreadIndex() ^ 1) * 4];
}

TEST(SeededBugsTest, ACopyIsDoneForOthersOnlyBehindABarrier) {
  RunSeeded<&CopyWithoutBarrier>(false);
  EXPECT_RACE(RunSeeded<&CopyWithoutBarrier>(true), kReadOfCopy);
}

constexpr int kNextCopy = __LINE__ + 6;
LUNA_KERNEL void CopyOverWhatIsRead(Args args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  float sum = 0;
  for (int i = 0; i < 2; ++i) {
    if (!args.broken) SyncThreads();
    CopyAsync16(tile + ThreadIndex() * 4, args.data + (i * kThreads + ThreadIndex()) * 4, true);
    CommitCopies();
    WaitCopies<0>();
    SyncThreads();
    sum += tile[(ThreadIndex() ^ 33) * 4];
  }
  args.data[ThreadIndex()] = sum;
}

TEST(SeededBugsTest, ACopyMayNotBeginWhileOthersReadWhatWasThere) {
  RunSeeded<&CopyOverWhatIsRead>(false);
  EXPECT_RACE(RunSeeded<&CopyOverWhatIsRead>(true), kNextCopy);
}

constexpr int kLoadOfRows = __LINE__ + 5;
LUNA_KERNEL void MatricesWithoutBarrier(Args args) {
  for (int i = 0; i < 4; ++i) reinterpret_cast<float*>(SharedMemory())[ThreadIndex() * 4 + i] = 1;
  if (!args.broken) SyncThreads();
  uint32_t r[4];
  LoadMatrices(r, SharedMemory() + (ThreadIndex() ^ 32) * 16);
  args.data[ThreadIndex()] = static_cast<float>(r[0]);
}

TEST(SeededBugsTest, MatricesAreReadFromSharedMemoryLikeAnythingElse) {
  RunSeeded<&MatricesWithoutBarrier>(false);
  EXPECT_RACE(RunSeeded<&MatricesWithoutBarrier>(true), kLoadOfRows);
}

// --- blocks --------------------------------------------------------------------------------------

constexpr int kReadOfBlock = __LINE__ + 9;
LUNA_KERNEL void MissingFence(Args args) {
  if (ThreadIndex() != 0) return;
  args.data[BlockIndexX()] = 2;
  if (!args.broken) GlobalFence();
  const bool last = AtomicAdd(args.count, uint32_t{1}) + 1 == static_cast<uint32_t>(GridX());
  if (!last) return;
  float sum = 0;
  // The write above or this read is the one that is told of first.
  for (int i = 0; i < GridX(); ++i) sum += args.data[i];
  args.data[GridX()] = sum;
}

TEST(SeededBugsTest, WhatABlockWroteIsForOthersOnlyBehindAFence) {
  RunSeeded<&MissingFence>(false, 2);
  EXPECT_RACE(RunSeeded<&MissingFence>(true, 2), kReadOfBlock);
}

// --- kernels that overlap ------------------------------------------------------------------------

LUNA_KERNEL void WriteRow(Args args) {
  AwaitEarlierKernels();
  args.data[BlockIndexX() * kThreads + ThreadIndex()] = 2.0f;
}

constexpr int kReadBeforeAwaiting = __LINE__ + 2;
// What both blocks of the kernel before write, one of which is another team's.
LUNA_DEVICE float SumOfRows(const float* row) { return row[0] + row[kThreads]; }

LUNA_KERNEL void ReadRows(Args args) {
  const float* from = args.data + ThreadIndex();
  float sum = args.broken ? SumOfRows(from) : 0.0f;
  AwaitEarlierKernels();
  if (!args.broken) sum = SumOfRows(from);
  args.data[(2 + BlockIndexX()) * kThreads + ThreadIndex()] = sum;
}

void RunOverlapping(bool broken) {
  std::vector<float> data(2 * kThreads * 4, 1.0f);
  const Args args = {data.data(), nullptr, broken};
  emulation::GridRunner runner(1);
  runner.Run({"write", KernelEntry<&WriteRow>(), kThreads}, {2}, 0, &args, /*overlaps=*/true);
  runner.Run({"read", KernelEntry<&ReadRows>(), kThreads}, {2}, 0, &args, /*overlaps=*/true);
  runner.Join();
  EXPECT_EQ(data[2 * kThreads], 4.0f);
}

TEST(SeededBugsTest, WhatAnEarlierKernelWritesIsAwaited) {
  RunOverlapping(false);
  EXPECT_RACE(RunOverlapping(true), kReadBeforeAwaiting);
}

// --- addresses -----------------------------------------------------------------------------------

LUNA_KERNEL void FillShared(Args args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  tile[ThreadIndex()] = args.data[ThreadIndex()];
  SyncThreads();
  args.data[ThreadIndex()] = tile[kThreads - 1 - ThreadIndex()];
}

TEST(SeededBugsTest, TooLittleSharedMemoryIsAnOverflow) {
  RunSeeded<&FillShared>(false, 1, kThreads * 4);
  EXPECT_ADDRESS_ERROR(RunSeeded<&FillShared>(false, 1, kThreads * 4 - 4),
                       "heap-buffer-overflow(.|\n)*in .*FillShared");
}

LUNA_KERNEL void CopyBeyond(Args args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  const int at = args.broken ? 2 * kThreads : ThreadIndex();
  CopyAsync16(tile + ThreadIndex() * 4, args.data + at * 4, true);
  CommitCopies();
  WaitCopies<0>();
}

TEST(SeededBugsTest, ACopyFromBeyondAnAllocationIsAnOverflowWhereItBegins) {
  RunSeeded<&CopyBeyond>(false);
  EXPECT_ADDRESS_ERROR(RunSeeded<&CopyBeyond>(true),
                       "heap-buffer-overflow(.|\n)*CopyAsync16(.|\n)*in .*CopyBeyond");
}

// Not inlined: a frame of its own. The address goes by way of a number, lest the compiler see it.
[[gnu::noinline]] LUNA_DEVICE uint64_t AddressOfLocal() {
  volatile float local = 2;
  return reinterpret_cast<uint64_t>(&local);
}

LUNA_KERNEL void UseAfterReturn(Args args) {
  auto* tile = reinterpret_cast<uint64_t*>(SharedMemory());
  if (ThreadIndex() == 0) tile[0] = AddressOfLocal();
  SyncThreads();
  const float* from = args.broken ? reinterpret_cast<const float*>(tile[0]) : args.data;
  args.data[kThreads + ThreadIndex()] = *from;
}

TEST(SeededBugsTest, FramesOfOtherThreadsAreKnown) {
  RunSeeded<&UseAfterReturn>(false);
  EXPECT_ADDRESS_ERROR(RunSeeded<&UseAfterReturn>(true),
                       "stack-use-after-return(.|\n)*in .*UseAfterReturn");
}

}  // namespace
}  // namespace luna::backend::cuda
