// The bytes behind the block ids: keys and values in f32.
#ifndef LUNA_CORE_BACKEND_KV_POOL_H_
#define LUNA_CORE_BACKEND_KV_POOL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/backend/backend.h"
#include "core/backend/mapped_memory.h"
#include "core/kv/layout.h"
#include "core/model/config.h"

namespace luna::backend {

// Where one layer's keys and values lie in every block: floats from the start of the pool.
//   key of (block, kv head h, slot s): keys + block * block_stride + h * head_stride + s * head_dim
//   its value: values_offset further on.
struct KvLayerView {
  float* keys = nullptr;
  int64_t block_stride = 0;
  int64_t head_stride = 0;
  int64_t values_offset = 0;
  int group = 0;  // whose block table leads to this layer's blocks
};

// Block: [layers of the group][K, V][num_kv_heads][block_tokens][head_dim] f32.
// Engine thread allocates; while a step runs, workers read and write through the views.
class KvPool {
 public:
  static int64_t TokenLayerBytes(const model::ModelConfig& config) {
    return int64_t{2} * config.kv_size() * static_cast<int64_t>(sizeof(float));
  }

  // INVALID_ARGUMENT if `layout` does not hold each of the model's layers once or is made for
  // another size; FAILED_PRECONDITION if there is a pool already; RESOURCE_EXHAUSTED.
  absl::Status Allocate(const model::ModelConfig& config, const kv::KvLayout& layout,
                        int32_t num_blocks);
  // INVALID_ARGUMENT for a block outside the pool; then nothing was copied.
  absl::Status Copy(std::span<const BlockCopy> copies);

  bool allocated() const { return !views_.empty(); }
  const kv::KvLayout& layout() const { return layout_; }
  int32_t num_blocks() const { return num_blocks_; }
  const KvLayerView& view(int layer) const { return views_[layer]; }

 private:
  kv::KvLayout layout_;
  int32_t num_blocks_ = 0;
  MappedMemory memory_;
  std::vector<KvLayerView> views_;  // [num_layers]
};

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_KV_POOL_H_
