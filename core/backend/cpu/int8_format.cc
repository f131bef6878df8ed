#include "core/backend/cpu/int8_format.h"

#include <algorithm>
#include <cstring>

namespace luna::backend::cpu {
namespace {

using Half = _Float16;

// `together`: inputs of one output that lie side by side. A level is stored as `zero` + level.
void PackInt8(const float* rows, int inputs, int together, int zero, std::byte* panel) {
  for (int begin = 0; begin < inputs; begin += kInt8Group, panel += kInt8GroupBytes) {
    const int count = std::min(kInt8Group, inputs - begin);
    auto* levels = reinterpret_cast<uint8_t*>(panel);
    auto* scales = reinterpret_cast<float*>(panel + kInt8GroupLevelBytes);
    std::fill_n(levels, kInt8GroupLevelBytes, static_cast<uint8_t>(zero));
    for (int o = 0; o < kPanel; ++o) {
      const float* row = rows + int64_t{o} * inputs + begin;
      const Int8Scale scale({row, static_cast<size_t>(count)});
      scales[o] = scale.scale;
      for (int i = 0; i < count; ++i) {
        levels[(i / together * kPanel + o) * together + i % together] =
            static_cast<uint8_t>(zero + scale.Level(row[i]));
      }
    }
  }
}

// A block of a file's row, as GGUF lays it out: a scale d, in Q4_1 a minimum m, 16 bytes of levels,
// inputs 0 to 15 in their low nibbles and 16 to 31 in the high ones. In Q4_0 m is -8 d.
struct Q4Block {
  Q4Block(const Q4Row& row, int group) {
    if (row.blocks == nullptr) return;
    const int64_t header = row.has_min ? 4 : 2, block_bytes = header + kInt8Group / 2;
    const std::byte* block = row.blocks + group * block_bytes;
    std::memcpy(&scale, block, sizeof(scale));
    if (row.has_min) {
      std::memcpy(&min, block + sizeof(scale), sizeof(min));
    } else {
      min = scale * -8;
    }
    for (int i = 0; i < kInt8Group / 2; ++i) {
      const auto both = std::to_integer<uint8_t>(block[header + i]);
      levels[i] = both & 15;
      levels[i + kInt8Group / 2] = both >> 4;
    }
  }
  Half scale = 0, min = 0;
  uint8_t levels[kInt8Group] = {};
};

void PackInt4(std::span<const Q4Row, kPanel> rows, int inputs, int together, std::byte* panel) {
  for (int g = 0; g < Int8Groups(inputs); ++g, panel += kInt4GroupBytes) {
    auto* levels = reinterpret_cast<uint8_t*>(panel);
    std::fill_n(levels, kInt4GroupLevelBytes, uint8_t{0});
    for (int o = 0; o < kPanel; ++o) {
      const Q4Block block(rows[o], g);
      std::byte* scales = panel + kInt4GroupLevelBytes;
      std::memcpy(scales + o * sizeof(Half), &block.scale, sizeof(Half));
      std::memcpy(scales + (kPanel + o) * sizeof(Half), &block.min, sizeof(Half));
      for (int i = 0; i < kInt8Group; ++i) {
        const int step = i / together;
        uint8_t& both = levels[(step / 2 * kPanel + o) * together + i % together];
        both = static_cast<uint8_t>(both | block.levels[i] << (step % 2 * 4));
      }
    }
  }
}

}  // namespace

void PackInt8ForBytes(const float* rows, int inputs, std::byte* panel) {
  PackInt8(rows, inputs, 4, 128, panel);
}

void PackInt8ForWords(const float* rows, int inputs, std::byte* panel) {
  PackInt8(rows, inputs, 2, 0, panel);
}

void PackInt4ForBytes(std::span<const Q4Row, kPanel> rows, int inputs, std::byte* panel) {
  PackInt4(rows, inputs, 4, panel);
}

void PackInt4ForWords(std::span<const Q4Row, kPanel> rows, int inputs, std::byte* panel) {
  PackInt4(rows, inputs, 2, panel);
}

int64_t int8_bytes::RowBytes(int inputs) {
  const int together = (Int8Groups(inputs) + kGroupsTogether - 1) / kGroupsTogether;
  return RoundUpToLine(TakenOffset(inputs) + together * kGroupsTogether * kOutliers);
}

int64_t int8_words::RowBytes(int inputs) {
  return RoundUpToLine(SumsOffset(inputs) + Int8Groups(inputs) * int64_t{4});
}

}  // namespace luna::backend::cpu
