// What a norm needs of a row, from the moments of its tiles.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_STATISTICS_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_STATISTICS_CUH_

#include "core/backend/cuda/kernel_args.h"
#include "core/backend/cuda/kernels/formats.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

inline constexpr int kStatisticsLanes = 4;

LUNA_DEVICE float SumOverStatisticsLanes(float value) {
  for (int mask = 1; mask < kStatisticsLanes; mask *= 2) value += ShuffleXor(value, mask);
  return value;
}

// Of one row for each kStatisticsLanes neighbouring lanes; called by whole warps. Lane i takes
// tiles i, i + kStatisticsLanes, ...
LUNA_DEVICE Statistics StatisticsOf(const NormArgs& args, int row, int lane) {
  const int tiles = TilesOf(args.size), first = lane % kStatisticsLanes;
  const Moments* moments = args.moments + row;
  const auto at = [&](int t) { return moments[int64_t{t} * args.moments_stride]; };
  float sum = 0.0f;
#pragma unroll 4
  for (int t = first; t < tiles; t += kStatisticsLanes) sum += at(t).sum;
  const float mean = SumOverStatisticsLanes(sum) / static_cast<float>(args.size);
  const float shift = args.kind == Norm::kLayerNorm ? mean : 0.0f;
  float squares = 0.0f;
#pragma unroll 4
  for (int t = first; t < tiles; t += kStatisticsLanes) {
    const Moments m = at(t);
    const int left = args.size - t * kTileRows;
    // Dividing by 16 is exact either way; the rest of a row is rare.
    const auto count = static_cast<float>(left < kTileRows ? left : kTileRows);
    const float tile_mean = left < kTileRows ? m.sum / count : m.sum * (1.0f / kTileRows);
    const float distance = tile_mean - shift;
    squares += m.squares + count * distance * distance;
  }
  squares = SumOverStatisticsLanes(squares);
  return {shift, 1.0f / sqrtf(squares / static_cast<float>(args.size) + args.epsilon)};
}

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_STATISTICS_CUH_
