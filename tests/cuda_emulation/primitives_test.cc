// Each function of kernels/platform.cuh, as the emulation does it, against plain C++.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/cuda_emulation/platform.h"
// The kernels' own header comes behind the platform.
#include "core/backend/cuda/device.h"
#include "core/backend/cuda/kernels/platform.cuh"
#include "tests/cuda_emulation/grid_runner.h"

namespace luna::backend::cuda {
namespace {

template <auto kKernel, typename Args>
void RunKernel(const Grid& grid, int threads, int64_t shared_bytes, const Args& args) {
  emulation::GridRunner runner(/*seed=*/1);
  runner.Run({"tested", KernelEntry<kKernel>(), threads}, grid, shared_bytes, &args);
}

// --- indices
// --------------------------------------------------------------------------------------

struct IndexArgs {
  int* out;  // [grid z, grid y, grid x, threads], added to
};

LUNA_KERNEL void LUNA_BLOCK_OF(96) CountIndices(IndexArgs args) {
  const int block = (BlockIndexZ() * 3 + BlockIndexY()) * GridX() + BlockIndexX();
  args.out[block * BlockThreads() + ThreadIndex()] += 1 + GridX();
}

TEST(PrimitivesTest, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> out(2 * 3 * 5 * 96);
  RunKernel<&CountIndices>({5, 3, 2}, 96, 0, IndexArgs{out.data()});
  EXPECT_EQ(out, std::vector<int>(out.size(), 6));
}

// --- barriers
// -------------------------------------------------------------------------------------

struct ReverseArgs {
  const float* in;  // [blocks, threads]
  float* out;       // the same, each block's reversed
};

LUNA_KERNEL void Reverse(ReverseArgs args) {
  auto* tile = reinterpret_cast<float*>(SharedMemory());
  const int first = BlockIndexX() * BlockThreads();
  for (int round = 0; round < 3; ++round) {
    tile[ThreadIndex()] = args.in[first + ThreadIndex()] + round;
    SyncThreads();
    args.out[first + ThreadIndex()] = tile[BlockThreads() - 1 - ThreadIndex()];
    SyncThreads();
  }
}

TEST(PrimitivesTest, SharedMemoryIsTheBlocksAndBarriersOrderIt) {
  for (const int threads : {32, 64, 256, 1024}) {
    const int blocks = 7;
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

}  // namespace
}  // namespace luna::backend::cuda
