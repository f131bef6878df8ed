// The kernels of a step, recorded once for each size of batch.
#ifndef LUNA_CORE_BACKEND_CUDA_STEP_GRAPHS_H_
#define LUNA_CORE_BACKEND_CUDA_STEP_GRAPHS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "core/backend/cuda/decoder.h"
#include "core/backend/cuda/device.h"
#include "core/backend/cuda/step_builder.h"

namespace luna::backend::cuda {

// Steps of single tokens and steps with chunks of prompts are apart: attention takes another
// kernel, and the latter have far more tokens than samples. A step runs in the smallest graph that
// has room for it; what is not there, its kernels skip.
class StepGraphs {
 public:
  // Records all sizes up to `max_tokens`. The decoder knows its pool and its buffers.
  static absl::StatusOr<StepGraphs> Record(Decoder& decoder, Device& device, int max_tokens);

  // Null if none has room: the step is launched kernel by kernel then.
  Device::Graph* Find(const StepShape& shape) const;

 private:
  struct Recorded {
    StepShape shape;
    std::unique_ptr<Device::Graph> graph;
  };
  std::vector<Recorded> graphs_;  // by tokens, ascending
};

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_STEP_GRAPHS_H_
