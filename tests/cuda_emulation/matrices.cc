#include "tests/cuda_emulation/matrices.h"

#include <bit>
#include <cstring>

namespace luna::backend::cuda::emulation {
namespace {

constexpr int kRows = 16, kDepth = 16, kColumns = 8;

float Low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float High(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

// c += a b, the products added in the order of k. Four rows at a time in registers: this is most of
// what an emulated transformer does.
void MultiplyInto(float (&c)[kRows][kColumns], const float (&a)[kRows][kDepth],
                  const float (&b)[kDepth][kColumns]) {
  using Half = float __attribute__((vector_size(16)));  // of a row of c
  for (int row = 0; row < kRows; row += 4) {
    Half sums[4][2];
    std::memcpy(sums, c[row], sizeof(sums));
    for (int k = 0; k < kDepth; ++k) {
      Half left, right;
      std::memcpy(&left, b[k], sizeof(left));
      std::memcpy(&right, b[k] + 4, sizeof(right));
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        sums[i][0] += a[row + i][k] * left;
        sums[i][1] += a[row + i][k] * right;
      }
    }
    std::memcpy(c[row], sums, sizeof(sums));
  }
}

}  // namespace

void Multiply(const std::array<void*, kLanes>& lanes) {
  float a[kRows][kDepth], b[kDepth][kColumns], c[kRows][kColumns];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& operands = *static_cast<const MmaOperands*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, column = t + i / 2 * 8;
      a[row][column] = Low(operands.a[i]);
      a[row][column + 1] = High(operands.a[i]);
    }
    for (int i = 0; i < 2; ++i) {
      b[t + i * 8][g] = Low(operands.b[i]);
      b[t + i * 8 + 1][g] = High(operands.b[i]);
    }
    std::memcpy(&c[g][t], operands.c, 8);
    std::memcpy(&c[g + 8][t], operands.c + 2, 8);
  }
  MultiplyInto(c, a, b);
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& operands = *static_cast<const MmaOperands*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4 * 2;
    std::memcpy(operands.c, &c[g][t], 8);
    std::memcpy(operands.c + 2, &c[g + 8][t], 8);
  }
}

void Spread(const std::array<void*, kLanes>& lanes, bool transposed) {
  uint16_t matrices[4][8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& operands = *static_cast<const MatrixOperands*>(lanes[lane]);
    std::memcpy(matrices[lane / 8][lane % 8], operands.row, sizeof(MatrixRow));
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    uint32_t* r = static_cast<const MatrixOperands*>(lanes[lane])->r;
    const int g = lane / 4, t = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      const auto& matrix = matrices[i];
      const uint16_t low = transposed ? matrix[t][g] : matrix[g][t];
      const uint16_t high = transposed ? matrix[t + 1][g] : matrix[g][t + 1];
      r[i] = low | static_cast<uint32_t>(high) << 16;
    }
  }
}

}  // namespace luna::backend::cuda::emulation
