#include "core/backend/cpu/int8_format.h"

#include <algorithm>
#include <cmath>

namespace luna::backend::cpu {

int64_t Int8PanelBytes(int inputs) { return Int8Groups(inputs) * kInt8GroupBytes; }

int64_t Int8RowBytes(int inputs) {
  return (Int8HasLowOffset(inputs) + Int8Groups(inputs) + 63) / 64 * 64;
}

void PackInt8(const float* rows, int inputs, std::byte* panel) {
  for (int begin = 0; begin < inputs; begin += kInt8Group, panel += kInt8GroupBytes) {
    const int count = std::min(kInt8Group, inputs - begin);
    auto* bytes = reinterpret_cast<uint8_t*>(panel);
    auto* scales = reinterpret_cast<float*>(panel + kInt8Steps * kInt8StepBytes);
    std::fill_n(bytes, kInt8Steps * kInt8StepBytes, uint8_t{128});
    for (int o = 0; o < kPanel; ++o) {
      const float* row = rows + int64_t{o} * inputs + begin;
      float largest = 0.0f;
      for (int i = 0; i < count; ++i) largest = std::max(largest, std::fabs(row[i]));
      scales[o] = largest / 127.0f;
      const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
      for (int i = 0; i < count; ++i) {
        const int level = static_cast<int>(std::lrintf(row[i] * inverse));
        bytes[(i / 4) * kInt8StepBytes + o * 4 + i % 4] =
            static_cast<uint8_t>(128 + std::clamp(level, -127, 127));
      }
    }
  }
}

}  // namespace luna::backend::cpu
