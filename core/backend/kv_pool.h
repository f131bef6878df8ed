// The bytes behind the block ids.
#ifndef LUNA_CORE_BACKEND_KV_POOL_H_
#define LUNA_CORE_BACKEND_KV_POOL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/backend/backend.h"
#include "core/backend/mapped_memory.h"
#include "core/kv/layout.h"
#include "core/model/config.h"

namespace luna::backend {

// Where one layer's keys and values lie in every block, in bytes.
//   keys of (block, kv head h): data + block * block_stride + h * head_stride
//   its values: values_offset further on.
struct KvLayerView {
  std::byte* data = nullptr;
  int64_t block_stride = 0;
  int64_t head_stride = 0;
  int64_t values_offset = 0;
  int group = 0;  // whose block table leads to this layer's blocks
};

// Block: [layers of the group][num_kv_heads][keys, values]; how the keys (or values) of
// block_tokens tokens and one head lie in their bytes is the backend's. Engine thread allocates;
// while a step runs, workers read and write through the views.
class KvPool {
 public:
  // `head_bytes`: of one token's keys, or values, of one head.
  static int64_t TokenLayerBytes(const model::ModelConfig& config, int64_t head_bytes) {
    return int64_t{2} * config.num_kv_heads * head_bytes;
  }

  // INVALID_ARGUMENT if `layout` does not hold each of the model's layers once or is made for
  // another size; FAILED_PRECONDITION if there is a pool already; RESOURCE_EXHAUSTED.
  absl::Status Allocate(const model::ModelConfig& config, int64_t head_bytes,
                        const kv::KvLayout& layout, int32_t num_blocks);
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
