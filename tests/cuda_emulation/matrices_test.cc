// The warp-wide matrix operations of kernels/platform.cuh, against the layouts that it states.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/cuda_emulation/platform.h"
// The kernels' own header comes behind the platform.
#include "core/backend/cuda/kernels/platform.cuh"
#include "tests/cuda_emulation/run_kernel.h"

namespace luna::backend::cuda {
namespace {

constexpr int kM = 16, kN = 8, kK = 16;

// Exact for the small values here.
uint16_t ToBf16(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }
float FromBf16(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

LUNA_DEVICE uint32_t Pair(uint16_t low, uint16_t high) {
  return low | static_cast<uint32_t>(high) << 16;
}

struct MmaArgs {
  const uint16_t* a;  // [warps, kM, kK] bf16
  const uint16_t* b;  // [warps, kK, kN] bf16
  float* c;           // [warps, kM, kN], added to
};

LUNA_KERNEL void MultiplyFragments(MmaArgs args) {
  const int warp = ThreadIndex() / kWarpSize, lane = ThreadIndex() % kWarpSize;
  const uint16_t* a = args.a + warp * kM * kK;
  const uint16_t* b = args.b + warp * kK * kN;
  float* c = args.c + warp * kM * kN;
  const int g = lane / 4, t = lane % 4;
  uint32_t fragment_a[4], fragment_b[2];
  for (int i = 0; i < 4; ++i) {
    const int row = i == 1 || i == 3 ? g + 8 : g, column = i < 2 ? 2 * t : 2 * t + 8;
    fragment_a[i] = Pair(a[row * kK + column], a[row * kK + column + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    const int row = 2 * t + 8 * i;
    fragment_b[i] = Pair(b[row * kN + g], b[(row + 1) * kN + g]);
  }
  float fragment_c[4] = {c[g * kN + 2 * t], c[g * kN + 2 * t + 1], c[(g + 8) * kN + 2 * t],
                         c[(g + 8) * kN + 2 * t + 1]};
  MmaBf16(fragment_c, fragment_a, fragment_b);
  c[g * kN + 2 * t] = fragment_c[0];
  c[g * kN + 2 * t + 1] = fragment_c[1];
  c[(g + 8) * kN + 2 * t] = fragment_c[2];
  c[(g + 8) * kN + 2 * t + 1] = fragment_c[3];
}

// The fragments of a and b come out of shared memory, a as it lies, b transposed.
LUNA_KERNEL void MultiplyTiles(MmaArgs args) {
  const int lane = ThreadIndex();
  auto* a = reinterpret_cast<uint16_t*>(SharedMemory());
  uint16_t* b = a + kM * kK;
  for (int i = lane; i < kM * kK; i += kWarpSize) a[i] = args.a[i];
  for (int i = lane; i < kK * kN; i += kWarpSize) b[i] = args.b[i];
  SyncWarp();
  // Matrices of a: rows 0 and 8 of the left half, then of the right.
  uint32_t fragment_a[4];
  LoadMatrices(fragment_a, a + (lane % 16) * kK + lane / 16 * 8);
  // b has two; the last two are the same again.
  uint32_t both[4];
  LoadMatricesTransposed(both, b + lane % 16 * kN);
  const uint32_t fragment_b[2] = {both[0], both[1]};
  const int g = lane / 4, t = lane % 4;
  float fragment_c[4] = {0, 0, 0, 0};
  MmaBf16(fragment_c, fragment_a, fragment_b);
  for (int i = 0; i < 4; ++i) args.c[(g + i / 2 * 8) * kN + 2 * t + i % 2] += fragment_c[i];
}

struct Product {
  explicit Product(int warps) : a(warps * kM * kK), b(warps * kK * kN), c(warps * kM * kN) {
    std::mt19937 random(7);
    // Quarters up to 8: every sum is exact in f32, whatever its order.
    for (auto& x : a) x = ToBf16((static_cast<int>(random() % 65) - 32) / 4.0f);
    for (auto& x : b) x = ToBf16((static_cast<int>(random() % 65) - 32) / 4.0f);
    for (auto& x : c) x = static_cast<float>(random() % 100);
    want = c;
    for (int w = 0; w < warps; ++w) {
      for (int m = 0; m < kM; ++m) {
        for (int n = 0; n < kN; ++n) {
          for (int k = 0; k < kK; ++k) {
            want[(w * kM + m) * kN + n] +=
                FromBf16(a[(w * kM + m) * kK + k]) * FromBf16(b[(w * kK + k) * kN + n]);
          }
        }
      }
    }
  }
  std::vector<uint16_t> a, b;
  std::vector<float> c, want;
};

TEST(MatricesTest, TheProductOfFragmentsIsThatOfTheMatrices) {
  Product product(3);
  RunKernel<&MultiplyFragments>({1}, 3 * kWarpSize, 0,
                                MmaArgs{product.a.data(), product.b.data(), product.c.data()});
  EXPECT_EQ(product.c, product.want);
}

TEST(MatricesTest, MatricesFromSharedMemoryAreFragments) {
  Product product(1);
  RunKernel<&MultiplyTiles>({1}, kWarpSize, (kM * kK + kK * kN) * 2,
                            MmaArgs{product.a.data(), product.b.data(), product.c.data()});
  EXPECT_EQ(product.c, product.want);
}

struct LoadArgs {
  uint32_t* plain;       // [32 lanes, 4]
  uint32_t* transposed;  // likewise
};

constexpr int kStride = 24;  // values from row to row: 16 bytes and a gap

// Row r of shared memory has the values 100 r + column; matrix i has the rows 8i to 8i + 7, the
// last first.
LUNA_DEVICE int RowOf(int matrix, int row) { return matrix * 8 + 7 - row; }

LUNA_KERNEL void LoadThem(LoadArgs args) {
  const int lane = ThreadIndex();
  auto* rows = reinterpret_cast<uint16_t*>(SharedMemory());
  for (int i = 0; i < 8; ++i) rows[lane * kStride + i] = static_cast<uint16_t>(100 * lane + i);
  SyncWarp();
  uint32_t r[4];
  LoadMatrices(r, rows + RowOf(lane / 8, lane % 8) * kStride);
  for (int i = 0; i < 4; ++i) args.plain[lane * 4 + i] = r[i];
  LoadMatricesTransposed(r, rows + RowOf(lane / 8, lane % 8) * kStride);
  for (int i = 0; i < 4; ++i) args.transposed[lane * 4 + i] = r[i];
}

TEST(MatricesTest, EachLaneGetsItsPairOfEachMatrix) {
  std::vector<uint32_t> plain(128), transposed(128);
  RunKernel<&LoadThem>({1}, kWarpSize, kWarpSize * kStride * 2,
                       LoadArgs{plain.data(), transposed.data()});
  const auto value = [](int matrix, int row, int column) {
    return static_cast<uint16_t>(100 * RowOf(matrix, row) + column);
  };
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(plain[lane * 4 + i], Pair(value(i, g, 2 * t), value(i, g, 2 * t + 1)));
      EXPECT_EQ(transposed[lane * 4 + i], Pair(value(i, 2 * t, g), value(i, 2 * t + 1, g)));
    }
  }
}

}  // namespace
}  // namespace luna::backend::cuda
