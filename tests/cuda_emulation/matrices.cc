#include "tests/cuda_emulation/matrices.h"

#include <bit>
#include <cstring>

namespace luna::backend::cuda::emulation {
namespace {

constexpr int kRows = 16, kDepth = 16, kColumns = 8;

float Low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float High(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

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
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      for (int column = 0; column < kColumns; ++column) c[row][column] += a[row][k] * b[k][column];
    }
  }
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
