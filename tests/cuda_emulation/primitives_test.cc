// Indices, barriers, shuffles, atomics and copies of kernels/platform.cuh, as the emulation does
// them, against plain C++.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/cuda_emulation/platform.h"
// The kernels' own header comes behind the platform.
#include "core/backend/cuda/kernels/platform.cuh"
#include "tests/cuda_emulation/run_kernel.h"

namespace luna::backend::cuda {
namespace {

// --- indices -------------------------------------------------------------------------------------

struct IndexArgs {
  int* out;  // [grid z, grid y, grid x, threads], added to
};

LUNA_KERNEL void LUNA_BLOCK_OF(96, 1) CountIndices(IndexArgs args) {
  const int block = (BlockIndexZ() * 3 + BlockIndexY()) * GridX() + BlockIndexX();
  args.out[block * BlockThreads() + ThreadIndex()] += 1 + GridX();
}

TEST(PrimitivesTest, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> out(2 * 3 * 5 * 96);
  RunKernel<&CountIndices>({5, 3, 2}, 96, 0, IndexArgs{out.data()});
  EXPECT_EQ(out, std::vector<int>(out.size(), 6));
}

struct OrderArgs {
  uint32_t* count;
  uint32_t* blocks;   // [blocks], in the order of their beginning
  uint32_t* threads;  // [threads] of block 0, likewise; counted behind the blocks
};

LUNA_KERNEL void NoteOrder(OrderArgs args) {
  if (BlockIndexX() == 0) args.threads[AtomicAdd(args.count + 1, uint32_t{1})] = ThreadIndex();
  SyncThreads();
  if (ThreadIndex() == 0) args.blocks[AtomicAdd(args.count, uint32_t{1})] = BlockIndexX();
}

struct Order {
  explicit Order(uint64_t seed) {
    uint32_t count[2] = {};
    RunKernel<&NoteOrder>({20}, 64, 0, OrderArgs{count, blocks.data(), threads.data()}, seed);
  }
  std::vector<uint32_t> blocks = std::vector<uint32_t>(20);
  std::vector<uint32_t> threads = std::vector<uint32_t>(64);
};

TEST(PrimitivesTest, TheOrderOfBlocksAndThreadsIsTheSeeds) {
  const Order first(1), again(1), other(2);
  std::vector<uint32_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(first.blocks, again.blocks);
  EXPECT_EQ(first.threads, again.threads);
  EXPECT_NE(first.blocks, other.blocks);
  EXPECT_NE(first.threads, other.threads);
  for (const Order& order : {first, other}) {
    EXPECT_NE(order.blocks, all);
    EXPECT_TRUE(std::is_permutation(order.blocks.begin(), order.blocks.end(), all.begin()));
  }
}

// --- shared memory and barriers ------------------------------------------------------------------

struct ReverseArgs {
  const float* in;  // [blocks, threads]
  float* out;       // the same, each block's reversed
};

LUNA_KERNEL void Reverse(ReverseArgs args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  const int first = BlockIndexX() * BlockThreads();
  for (int round = 0; round < 3; ++round) {
    tile[ThreadIndex()] = args.in[first + ThreadIndex()] + static_cast<float>(round);
    SyncThreads();
    args.out[first + ThreadIndex()] = tile[BlockThreads() - 1 - ThreadIndex()];
    SyncThreads();
  }
}

TEST(PrimitivesTest, SharedMemoryIsTheBlocksAndBarriersOrderIt) {
  for (const int threads : {32, 64, 256, 1024}) {
    const int blocks = 5;
    std::vector<float> in(blocks * threads), out(in.size()), want(in.size());
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
    for (int b = 0; b < blocks; ++b) {
      for (int t = 0; t < threads; ++t) {
        want[b * threads + t] = in[b * threads + threads - 1 - t] + 2;
      }
    }
    RunKernel<&Reverse>({blocks}, threads, threads * 4, ReverseArgs{in.data(), out.data()});
    EXPECT_EQ(out, want) << threads;
  }
}

LUNA_KERNEL void RotateInWarps(ReverseArgs args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  const int i = ThreadIndex(), lane = i % kWarpSize;
  tile[i] = args.in[i];
  for (int round = 0; round < 40; ++round) {
    SyncWarp();
    const float next = tile[i - lane + (lane + 1) % kWarpSize];
    SyncWarp();
    tile[i] = next;
  }
  args.out[i] = tile[i];
}

TEST(PrimitivesTest, WarpBarriersOrderSharedMemoryWithinWarps) {
  std::vector<float> in(96), out(96);
  std::iota(in.begin(), in.end(), 0.0f);
  RunKernel<&RotateInWarps>({1}, 96, 96 * 4, ReverseArgs{in.data(), out.data()});
  for (int i = 0; i < 96; ++i) EXPECT_EQ(out[i], in[i / 32 * 32 + (i + 40) % 32]) << i;
}

LUNA_KERNEL void ReadUnwritten(ReverseArgs args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  args.out[BlockIndexX() * BlockThreads() + ThreadIndex()] = tile[ThreadIndex()];
  tile[ThreadIndex()] = 1;
}

TEST(PrimitivesTest, SharedMemoryIsNanInEveryBlockUntilItIsWritten) {
  std::vector<float> out(4 * 32);
  RunKernel<&ReadUnwritten>({4}, 32, 32 * 4, ReverseArgs{nullptr, out.data()});
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
}

struct FirstArgs {
  int threads;  // that do something
  int* out;     // [threads]
};

LUNA_KERNEL void ReturnEarly(FirstArgs args) {
  SyncThreads();
  if (ThreadIndex() >= args.threads) return;
  args.out[ThreadIndex()] = ThreadIndex();
}

TEST(PrimitivesTest, ThreadsMayReturnWhenNoneWaitsAnyMore) {
  std::vector<int> out(37), want(37);
  std::iota(want.begin(), want.end(), 0);
  RunKernel<&ReturnEarly>({1}, 64, 0, FirstArgs{37, out.data()});
  EXPECT_EQ(out, want);
}

// --- shuffles ------------------------------------------------------------------------------------

constexpr int kShuffled = 64;  // threads

template <typename T>
struct ShuffleArgs {
  const T* in;  // [kShuffled]
  T* from;      // [kWarpSize, kShuffled], each row with another lane or mask
  T* xored;     // likewise
};

template <typename T>
LUNA_KERNEL void Shuffle(ShuffleArgs<T> args) {
  const T mine = args.in[ThreadIndex()];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    args.from[lane * kShuffled + ThreadIndex()] = ShuffleFrom(mine, lane);
    args.xored[lane * kShuffled + ThreadIndex()] = ShuffleXor(mine, lane);
  }
}

template <typename T>
void TestShuffles() {
  std::vector<T> in(kShuffled), from(kWarpSize * kShuffled), xored(from.size());
  for (int i = 0; i < kShuffled; ++i) in[i] = static_cast<T>(1000 - i * 3);
  RunKernel<&Shuffle<T>>({1}, kShuffled, 0, ShuffleArgs<T>{in.data(), from.data(), xored.data()});
  for (int lane = 0; lane < kWarpSize; ++lane) {
    for (int i = 0; i < kShuffled; ++i) {
      ASSERT_EQ(from[lane * kShuffled + i], in[i / 32 * 32 + lane]);
      ASSERT_EQ(xored[lane * kShuffled + i], in[i / 32 * 32 + (i % 32 ^ lane)]);
    }
  }
}

TEST(PrimitivesTest, ShufflesMoveValuesOfFourAndEightBytes) {
  TestShuffles<float>();
  TestShuffles<int32_t>();
  TestShuffles<uint64_t>();
  TestShuffles<double>();
}

LUNA_KERNEL void RotateByShuffle(ReverseArgs args) {
  const int lane = ThreadIndex() % kWarpSize;
  args.out[ThreadIndex()] = ShuffleFrom(args.in[ThreadIndex()], (lane + 5) % kWarpSize);
}

TEST(PrimitivesTest, EveryLaneMayAskForAnother) {
  std::vector<float> in(32), out(32);
  std::iota(in.begin(), in.end(), 0.0f);
  RunKernel<&RotateByShuffle>({1}, 32, 0, ReverseArgs{in.data(), out.data()});
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], in[(i + 5) % 32]);
}

// --- asynchronous copies -------------------------------------------------------------------------

struct CopyArgs {
  float* in;   // [2, threads, 4]
  float* out;  // [5, threads, 4]
};

LUNA_DEVICE void Give(const CopyArgs& args, int row, const float* values) {
  for (int i = 0; i < 4; ++i) {
    args.out[(row * BlockThreads() + ThreadIndex()) * 4 + i] = values[i];
  }
}

LUNA_KERNEL void CopyInGroups(CopyArgs args) {
  auto* first = reinterpret_cast<float*>(SharedMemory()) + ThreadIndex() * 8;
  float* second = first + 4;
  for (int i = 0; i < 4; ++i) first[i] = 1;
  CopyAsync16(first, args.in + ThreadIndex() * 4, true);
  CommitCopies();
  CopyAsync16(second, args.in + (BlockThreads() + ThreadIndex()) * 4, true);
  CommitCopies();
  Give(args, 0, first);  // too early
  args.in[ThreadIndex() * 4] = -1;
  WaitCopies<1>();
  Give(args, 1, first);
  Give(args, 2, second);  // too early
  WaitCopies<0>();
  Give(args, 3, second);
  CopyAsync16(first, args.in, false);
  CommitCopies();
  WaitCopies<0>();
  Give(args, 4, first);
}

TEST(PrimitivesTest, CopiesAreDoneAsLateAsTheyMayBe) {
  const int threads = 64, row = threads * 4;
  std::vector<float> in(2 * row), out(5 * row);
  std::iota(in.begin(), in.end(), 1.0f);
  RunKernel<&CopyInGroups>({1}, threads, threads * 32, CopyArgs{in.data(), out.data()});
  for (int i = 0; i < row; ++i) {
    ASSERT_TRUE(std::isnan(out[i]));
    ASSERT_EQ(out[row + i], i % 4 == 0 ? -1 : static_cast<float>(i + 1));
    ASSERT_TRUE(std::isnan(out[2 * row + i]));
    ASSERT_EQ(out[3 * row + i], static_cast<float>(row + i + 1));
    ASSERT_EQ(out[4 * row + i], 0);
  }
}

// --- atomics -------------------------------------------------------------------------------------

template <typename T>
struct CountArgs {
  T* count;
  uint8_t* taken;  // [blocks * threads], added to
};

template <typename T>
LUNA_KERNEL void TakeNumbers(CountArgs<T> args) {
  const T before = AtomicAdd(args.count, T{3});
  args.taken[before / 3] += 1;
}

template <typename T>
void TestAtomicAdd(T start) {
  T count = start;
  std::vector<uint8_t> taken(start / 3 + 6 * 64);
  RunKernel<&TakeNumbers<T>>({3, 2}, 64, 0, CountArgs<T>{&count, taken.data()});
  EXPECT_EQ(count, start + 6 * 64 * 3);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), 6 * 64);
}

TEST(PrimitivesTest, AtomicAddCountsAcrossBlocksAndReturnsWhatWas) {
  TestAtomicAdd<uint32_t>(0);
  TestAtomicAdd<uint64_t>(300);
}

struct CarryArgs {
  uint64_t* sum;
};

LUNA_KERNEL void AddLarge(CarryArgs args) { AtomicAdd(args.sum, uint64_t{1} << 31); }

TEST(PrimitivesTest, AtomicAddOf64BitsCarries) {
  uint64_t sum = 7;
  RunKernel<&AddLarge>({1}, 64, 0, CarryArgs{&sum});
  EXPECT_EQ(sum, (uint64_t{64} << 31) + 7);
}

struct SumArgs {
  const float* in;  // [blocks, threads]
  float* partial;   // [blocks]
  uint32_t* done;   // blocks
  float* sum;
};

// The block that comes last adds up what the others wrote.
LUNA_KERNEL void SumOfBlocks(SumArgs args) {
  auto* last = reinterpret_cast<uint32_t*>(SharedMemory());
  float sum = args.in[BlockIndexX() * BlockThreads() + ThreadIndex()];
  for (int mask = 16; mask > 0; mask /= 2) sum += ShuffleXor(sum, mask);
  if (ThreadIndex() == 0) {
    args.partial[BlockIndexX()] = sum;
    GlobalFence();
    *last = AtomicAdd(args.done, uint32_t{1}) + 1 == static_cast<uint32_t>(GridX());
  }
  SyncThreads();
  if (*last == 0) return;
  sum = ThreadIndex() < GridX() ? LoadFresh(args.partial + ThreadIndex()) : 0;
  for (int mask = 16; mask > 0; mask /= 2) sum += ShuffleXor(sum, mask);
  if (ThreadIndex() == 0) *args.sum = sum;
}

TEST(PrimitivesTest, TheLastBlockSeesWhatTheOthersWroteBeforeTheirFence) {
  std::vector<float> in(20 * 32), partial(20);
  std::iota(in.begin(), in.end(), 0.0f);
  uint32_t done = 0;
  float sum = 0;
  RunKernel<&SumOfBlocks>({20}, 32, 4, SumArgs{in.data(), partial.data(), &done, &sum});
  EXPECT_EQ(sum, std::accumulate(in.begin(), in.end(), 0.0f));
}

}  // namespace
}  // namespace luna::backend::cuda
