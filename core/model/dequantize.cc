// GGML's block formats as the GGUF specification lays them out. All numbers are little-endian; `d`
// and `m` are f16 scale and minimum. Products and sums are rounded one by one, in the order in
// which the formats are defined, so that the values are the same bits everywhere.
#include <bit>
#include <cstring>

#include "core/base/check.h"
#include "core/model/tensor.h"

namespace luna::model {
namespace {

static_assert(std::endian::native == std::endian::little, "weights are read in place");

using Bytes = const uint8_t*;

uint16_t LoadU16(Bytes p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

uint32_t LoadU32(Bytes p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  uint32_t bits;
  if (magnitude < 0x0400u) {  // zero and subnormals: an integer number of 2^-24
    bits = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  } else if (magnitude < 0x7c00u) {
    bits = (magnitude << 13) + (112u << 23);
  } else {
    bits = (magnitude << 13) | 0x7f800000u;
  }
  return std::bit_cast<float>(sign | bits);
}

float LoadHalf(Bytes p) { return HalfToFloat(LoadU16(p)); }

void WidenF16(Bytes source, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = LoadHalf(source + 2 * i);
}

void WidenBF16(Bytes source, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(LoadU16(source + 2 * i)) << 16);
  }
}

// d, 32 x int8.
void BlockQ8_0(Bytes block, float* out) {
  const float d = LoadHalf(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// Low nibbles are values 0..15, high nibbles 16..31, in all 32-value formats below.
// d, 16 bytes of nibbles, offset 8.
void BlockQ4_0(Bytes block, float* out) {
  const float d = LoadHalf(block);
  for (int i = 0; i < 16; ++i) {
    const int q = block[2 + i];
    out[i] = d * static_cast<float>((q & 15) - 8);
    out[i + 16] = d * static_cast<float>((q >> 4) - 8);
  }
}

// d, m, 16 bytes of nibbles.
void BlockQ4_1(Bytes block, float* out) {
  const float d = LoadHalf(block);
  const float m = LoadHalf(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int q = block[4 + i];
    out[i] = d * static_cast<float>(q & 15) + m;
    out[i + 16] = d * static_cast<float>(q >> 4) + m;
  }
}

// d, 32 fifth bits, 16 bytes of nibbles, offset 16.
void BlockQ5_0(Bytes block, float* out) {
  const float d = LoadHalf(block);
  const uint32_t high = LoadU32(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int q = block[6 + i];
    const int low_value = (q & 15) | static_cast<int>((high >> i) & 1) << 4;
    const int high_value = (q >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = d * static_cast<float>(low_value - 16);
    out[i + 16] = d * static_cast<float>(high_value - 16);
  }
}

// d, m, 32 fifth bits, 16 bytes of nibbles.
void BlockQ5_1(Bytes block, float* out) {
  const float d = LoadHalf(block);
  const float m = LoadHalf(block + 2);
  const uint32_t high = LoadU32(block + 4);
  for (int i = 0; i < 16; ++i) {
    const int q = block[8 + i];
    const int low_value = (q & 15) | static_cast<int>((high >> i) & 1) << 4;
    const int high_value = (q >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = d * static_cast<float>(low_value) + m;
    out[i + 16] = d * static_cast<float>(high_value) + m;
  }
}

// Eight 6-bit scales and eight 6-bit minimums in 12 bytes: the first four of each lie in the low
// six bits of bytes 0..3 and 4..7; of the last four the low nibbles lie in bytes 8..11, the high
// two bits in the top bits of bytes 0..7.
struct ScaleAndMin {
  int scale;
  int min;
};

ScaleAndMin UnpackScaleAndMin(Bytes packed, int index) {
  if (index < 4) return {packed[index] & 63, packed[index + 4] & 63};
  return {(packed[index + 4] & 15) | (packed[index - 4] >> 6) << 4,
          (packed[index + 4] >> 4) | (packed[index] >> 6) << 4};
}

// d, dmin, 12 bytes of scales and minimums, 128 bytes of nibbles. Every 32 bytes hold 64 values:
// low nibbles first, then high, each 32 with its own scale and minimum.
void BlockQ4_K(Bytes block, float* out) {
  const float d = LoadHalf(block);
  const float d_min = LoadHalf(block + 2);
  Bytes nibbles = block + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMin s = UnpackScaleAndMin(block + 4, group);
    const float scale = d * static_cast<float>(s.scale);
    const float min = d_min * static_cast<float>(s.min);
    const int shift = group % 2 * 4;
    Bytes q = nibbles + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      out[group * 32 + i] = scale * static_cast<float>((q[i] >> shift) & 15) - min;
    }
  }
}

// As Q4_K, with 32 bytes of fifth bits before the nibbles: bit g of byte i belongs to group g.
void BlockQ5_K(Bytes block, float* out) {
  const float d = LoadHalf(block);
  const float d_min = LoadHalf(block + 2);
  Bytes high = block + 16;
  Bytes nibbles = block + 48;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMin s = UnpackScaleAndMin(block + 4, group);
    const float scale = d * static_cast<float>(s.scale);
    const float min = d_min * static_cast<float>(s.min);
    const int shift = group % 2 * 4;
    Bytes q = nibbles + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int value = ((q[i] >> shift) & 15) | ((high[i] >> group) & 1) << 4;
      out[group * 32 + i] = scale * static_cast<float>(value) - min;
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 x int8 scales (one for 16 values), d;
// offset 32. Each half of 128 values takes 64 low and 32 high bytes: values 0..31 and 32..63 are
// the low nibbles of the first and second 32 bytes, 64..127 their high nibbles.
void BlockQ6_K(Bytes block, float* out) {
  const float d = LoadHalf(block + 208);
  Bytes scales = block + 192;
  for (int half = 0; half < 2; ++half) {
    Bytes low = block + half * 64;
    Bytes high = block + 128 + half * 32;
    for (int quarter = 0; quarter < 4; ++quarter) {
      Bytes nibbles = low + quarter % 2 * 32;
      const int low_shift = quarter / 2 * 4;
      for (int i = 0; i < 32; ++i) {
        const int value = ((nibbles[i] >> low_shift) & 15) | ((high[i] >> (quarter * 2)) & 3) << 4;
        const int index = half * 128 + quarter * 32 + i;
        const float scale = d * static_cast<float>(static_cast<int8_t>(scales[index / 16]));
        out[index] = scale * static_cast<float>(value - 32);
      }
    }
  }
}

template <void (*Block)(Bytes, float*)>
void Blocks(DType dtype, Bytes source, int64_t count, float* out) {
  const int values = BlockValues(dtype);
  const int bytes = BlockBytes(dtype);
  for (int64_t i = 0; i < count; i += values, source += bytes) Block(source, out + i);
}

}  // namespace

void DequantizeRow(DType dtype, const std::byte* source, int64_t count, float* out) {
  LUNA_CHECK(count >= 0 && count % BlockValues(dtype) == 0)
      << count << " values are not whole blocks of " << DTypeName(dtype);
  const Bytes bytes = reinterpret_cast<Bytes>(source);
  switch (dtype) {
    case DType::kF32:
      if (count > 0) std::memcpy(out, source, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::kF16:
      return WidenF16(bytes, count, out);
    case DType::kBF16:
      return WidenBF16(bytes, count, out);
    case DType::kQ8_0:
      return Blocks<BlockQ8_0>(dtype, bytes, count, out);
    case DType::kQ4_0:
      return Blocks<BlockQ4_0>(dtype, bytes, count, out);
    case DType::kQ4_1:
      return Blocks<BlockQ4_1>(dtype, bytes, count, out);
    case DType::kQ5_0:
      return Blocks<BlockQ5_0>(dtype, bytes, count, out);
    case DType::kQ5_1:
      return Blocks<BlockQ5_1>(dtype, bytes, count, out);
    case DType::kQ4_K:
      return Blocks<BlockQ4_K>(dtype, bytes, count, out);
    case DType::kQ5_K:
      return Blocks<BlockQ5_K>(dtype, bytes, count, out);
    case DType::kQ6_K:
      return Blocks<BlockQ6_K>(dtype, bytes, count, out);
  }
}

std::vector<float> Dequantize(const Tensor& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.rows * tensor.cols));
  DequantizeRow(tensor.dtype, tensor.data, tensor.rows * tensor.cols, out.data());
  return out;
}

}  // namespace luna::model
