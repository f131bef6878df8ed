#include "core/backend/cuda/packing.h"

#include <algorithm>
#include <cstring>

#include "core/backend/rounding.h"
#include "core/base/check.h"

namespace luna::backend::cuda {
namespace {

using model::Tensor;

constexpr int kStepInputs = 16;
constexpr int kLanes = 32;

static_assert(kGroupInputs == kInt8Group);

void FillTile(std::vector<RowRef>& rows) {
  rows.resize((rows.size() + kTileRows - 1) / kTileRows * kTileRows);
}

RowRef Row(const Tensor& tensor, const Tensor& bias, int64_t row) {
  return {.tensor = &tensor, .row = row, .bias = bias ? &bias : nullptr};
}

// Calls put(lane, register, half, row, input) for the 256 values of a fragment: MmaBf16's a.
template <typename Put>
void ForFragment(Put put) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int r = 0; r < 4; ++r) {
      for (int half = 0; half < 2; ++half) {
        put(lane, r, half, lane / 4 + r % 2 * 8, lane % 4 * 2 + half + r / 2 * 8);
      }
    }
  }
}

void PackF32(const float* group, std::byte* out) {
  std::memcpy(out, group, kTileRows * kGroupInputs * sizeof(float));
}

void PackBf16(const float* group, std::byte* out) {
  auto* values = reinterpret_cast<uint16_t*>(out);
  for (int begin = 0; begin < kGroupInputs; begin += kStepInputs) {
    ForFragment([&](int lane, int r, int half, int row, int input) {
      values[(lane * 4 + r) * 2 + half] = ToBf16(group[row * kGroupInputs + begin + input]);
    });
    values += kLanes * 4 * 2;
  }
}

void PackInt8(const float* group, std::byte* out, float* scales) {
  constexpr int kZero = 128;
  std::vector<Int8Scale> of_row;
  for (int row = 0; row < kTileRows; ++row) {
    of_row.emplace_back(std::span(group + row * kGroupInputs, size_t{kGroupInputs}));
    scales[row] = of_row.back().scale;
  }
  for (int begin = 0; begin < kGroupInputs; begin += kStepInputs) {
    ForFragment([&](int lane, int r, int half, int row, int input) {
      const int level = of_row[row].Level(group[row * kGroupInputs + begin + input]);
      out[lane * kStepInputs + begin / 2 + r * 2 + half] = static_cast<std::byte>(kZero + level);
    });
  }
}

}  // namespace

std::vector<RowRef> StackedRows(
    const std::vector<std::pair<const Tensor*, const Tensor*>>& tensors) {
  std::vector<RowRef> rows;
  for (const auto& [tensor, bias] : tensors) {
    for (int64_t r = 0; r < tensor->rows; ++r) rows.push_back(Row(*tensor, *bias, r));
  }
  FillTile(rows);
  return rows;
}

std::vector<RowRef> GatedRows(const Tensor& gate, const Tensor& up) {
  constexpr int kHalf = kTileRows / 2;
  const Tensor none;
  std::vector<RowRef> rows;
  for (int64_t begin = 0; begin < up.rows; begin += kHalf) {
    for (const Tensor* tensor : {&gate, &up}) {
      for (int64_t r = begin; r < begin + kHalf; ++r) {
        rows.push_back(r < up.rows ? Row(*tensor, none, r) : RowRef{});
      }
    }
  }
  return rows;
}

std::vector<RowRef> HeadRows(const Tensor& tensor, const Tensor& bias, int head_dim, bool rotated) {
  std::vector<RowRef> rows;
  for (int64_t begin = 0; begin < tensor.rows; begin += head_dim) {
    for (int at = 0; at < PaddedHeadDim(head_dim); ++at) {
      int dim = at;
      bool there = at < head_dim;
      if (rotated) {
        const int pair = at / kTileRows * (kTileRows / 2) + at % (kTileRows / 2);
        there = pair < head_dim / 2;
        dim = pair + at % kTileRows / (kTileRows / 2) * (head_dim / 2);
      }
      rows.push_back(there ? Row(tensor, bias, begin + dim) : RowRef{});
    }
  }
  return rows;
}

int64_t GroupBytes(WeightsFormat format) {
  const int64_t values = int64_t{kTileRows} * kGroupInputs;
  return format == WeightsFormat::kF32    ? 4 * values
         : format == WeightsFormat::kBf16 ? 2 * values
                                          : values;
}

void PackTile(WeightsFormat format, const float* rows, int inputs, std::byte* out, float* scales) {
  float group[kTileRows * kGroupInputs];
  for (int begin = 0; begin < inputs; begin += kGroupInputs, out += GroupBytes(format)) {
    const int count = std::min(kGroupInputs, inputs - begin);
    std::fill(std::begin(group), std::end(group), 0.0f);
    for (int r = 0; r < kTileRows; ++r) {
      std::copy_n(rows + int64_t{r} * inputs + begin, count, group + r * kGroupInputs);
    }
    switch (format) {
      case WeightsFormat::kF32:
        PackF32(group, out);
        break;
      case WeightsFormat::kBf16:
        PackBf16(group, out);
        break;
      case WeightsFormat::kInt8:
        PackInt8(group, out, scales);
        scales += kTileRows;
        break;
      case WeightsFormat::kInt4:
        LUNA_CHECK(false) << "weights in int4";
    }
  }
}

}  // namespace luna::backend::cuda
