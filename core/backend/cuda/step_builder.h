// Lays a batch out as the kernels read it.
#ifndef LUNA_CORE_BACKEND_CUDA_STEP_BUILDER_H_
#define LUNA_CORE_BACKEND_CUDA_STEP_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/backend/cuda/step_layout.h"
#include "core/backend/kv_geometry.h"
#include "core/batch/batch.h"
#include "core/model/config.h"

namespace luna::backend::cuda {

// How attention's work is cut up.
struct AttentionPlan {
  int heads = 0;  // query heads of a KV head
  int num_kv_heads = 0;
  int narrow_columns = 0;  // of the kernel for single tokens
  int wide_columns = 0;    // of the kernel for chunks
  // Blocks that are enough to keep the device busy: fewer are made more by sharing splits out.
  int target_blocks = 0;
  int max_partials = 0;  // splits whose results there is room for
  int max_splits = 0;    // of the longest context
};

// What a launch depends on beside the batch's bytes.
struct StepShape {
  int tokens = 0;
  int samples = 0;
  bool narrow_attention = false;  // single tokens only
  int attention_items = 0;        // of the group that has the most
};

// Writes into memory that others own. Reused from step to step; allocates nothing.
class StepBuilder {
 public:
  StepBuilder(const model::ModelConfig& config, const kv::KvLayout& layout,
              const AttentionPlan& plan, int max_tokens);

  // Of the longest step.
  int64_t max_bytes() const;

  // Writes `batch`, which was checked, to `out` (aligned to 16 bytes), StepHeader first; returns
  // how many bytes, a multiple of 16.
  int64_t Build(const batch::Batch& batch, std::byte* out, StepShape& shape);

 private:
  class Writer;
  int64_t MaxTableEntries() const;
  void AddItems(const batch::Batch& batch, int group, int sequence,
                std::span<const int32_t> tables);
  int64_t CountTiles(const batch::Batch& batch) const;

  const AttentionPlan plan_;
  const int max_tokens_;
  const int context_length_;
  const int num_groups_;
  const int block_tokens_;
  std::vector<int> windows_;          // [num_groups]
  std::vector<AttentionItem> items_;  // scratch of Build
  int columns_ = 0;                   // of the kernel that this step takes
  int64_t blocks_ = 0;                // that attention has if each takes all of its queries' splits
  int partials_ = 0, tickets_ = 0;    // given out
};

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_STEP_BUILDER_H_
