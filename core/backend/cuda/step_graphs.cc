#include "core/backend/cuda/step_graphs.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"

namespace luna::backend::cuda {
namespace {

constexpr int kDecodeSizes[] = {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
// Chunks of prompts beside single tokens. What is not sampled costs a few kernels that end at once.
constexpr int kMixedSizes[] = {16, 32, 64, 128, 192, 256, 384, 512, 1024, 2048};

constexpr int kMaxMixedSamples = 256;

std::vector<StepShape> ShapesToRecord(const AttentionPlan& plan, int max_tokens) {
  std::vector<StepShape> shapes;
  for (const int size : kDecodeSizes) {
    if (size > max_tokens) break;
    shapes.push_back({.tokens = size, .samples = size, .narrow_attention = true});
  }
  for (const int size : kMixedSizes) {
    const int tokens = std::min(size, max_tokens);
    shapes.push_back({.tokens = tokens, .samples = std::min(tokens, kMaxMixedSamples)});
    if (tokens == max_tokens) break;
  }
  // About as many as there may be; the kernel's blocks share out what there is.
  for (StepShape& shape : shapes) {
    const int blocks = shape.tokens * plan.num_kv_heads;
    const int shares = std::min(plan.max_splits, (plan.target_blocks + blocks - 1) / blocks);
    shape.attention_items = shape.tokens * std::max(1, shares);
  }
  std::ranges::stable_sort(shapes, {}, &StepShape::tokens);
  return shapes;
}

}  // namespace

absl::StatusOr<StepGraphs> StepGraphs::Record(Decoder& decoder, Device& device, int max_tokens) {
  StepGraphs graphs;
  for (const StepShape& shape : ShapesToRecord(decoder.attention_plan(), max_tokens)) {
    LUNA_RETURN_IF_ERROR(device.BeginCapture());
    const absl::Status launched = decoder.Launch(shape);
    // Ended in any case: the device does nothing else before.
    absl::StatusOr<std::unique_ptr<Device::Graph>> graph = device.EndCapture();
    LUNA_RETURN_IF_ERROR(launched);
    LUNA_RETURN_IF_ERROR(graph.status());
    graphs.graphs_.push_back({shape, *std::move(graph)});
  }
  return graphs;
}

Device::Graph* StepGraphs::Find(const StepShape& shape) const {
  for (const Recorded& recorded : graphs_) {
    if (recorded.shape.narrow_attention == shape.narrow_attention &&
        recorded.shape.tokens >= shape.tokens && recorded.shape.samples >= shape.samples) {
      return recorded.graph.get();
    }
  }
  return nullptr;
}

}  // namespace luna::backend::cuda
