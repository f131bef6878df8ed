// What a norm needs of a row, from the moments of its tiles.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_STATISTICS_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_STATISTICS_CUH_

#include "core/backend/cuda/kernel_args.h"
#include "core/backend/cuda/kernels/formats.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

// Tiles in ascending order; one thread.
LUNA_DEVICE Statistics StatisticsOf(const NormArgs& args, int row) {
  if (args.kind == Norm::kNone) return {0.0f, 1.0f};
  const Moments* moments = args.moments + row;
  const int tiles = TilesOf(args.size);
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) sum += moments[int64_t{t} * args.moments_stride].sum;
  const float mean = sum / static_cast<float>(args.size);
  const float shift = args.kind == Norm::kLayerNorm ? mean : 0.0f;
  float squares = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    const Moments& m = moments[int64_t{t} * args.moments_stride];
    const auto count = static_cast<float>(Smaller(kTileRows, args.size - t * kTileRows));
    const float distance = m.sum / count - shift;
    squares += m.squares + count * distance * distance;
  }
  return {shift, 1.0f / sqrtf(squares / static_cast<float>(args.size) + args.epsilon)};
}

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_STATISTICS_CUH_
