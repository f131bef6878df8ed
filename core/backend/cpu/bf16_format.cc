#include "core/backend/cpu/bf16_format.h"

namespace luna::backend::cpu {

int64_t Bf16PanelBytes(int inputs) {
  return int64_t{Bf16Pairs(inputs)} * kPanel * 2 * static_cast<int64_t>(sizeof(uint16_t));
}

void PackBf16(const float* rows, int inputs, std::byte* panel) {
  auto* out = reinterpret_cast<uint16_t*>(panel);
  for (int i = 0; i < 2 * Bf16Pairs(inputs); ++i) {
    for (int o = 0; o < kPanel; ++o) {
      out[(i / 2 * kPanel + o) * 2 + i % 2] =
          i < inputs ? ToBf16(rows[int64_t{o} * inputs + i]) : uint16_t{0};
    }
  }
}

}  // namespace luna::backend::cpu
