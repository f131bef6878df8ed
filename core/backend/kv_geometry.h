// Where keys and values lie in a pool of blocks, wherever its bytes are.
#ifndef LUNA_CORE_BACKEND_KV_GEOMETRY_H_
#define LUNA_CORE_BACKEND_KV_GEOMETRY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "core/kv/layout.h"
#include "core/model/config.h"

namespace luna::backend {

// Where one layer's keys and values lie in every block, in bytes from the pool's beginning.
//   keys of (block, kv head h): offset + block * block_stride + h * head_stride
//   its values: values_offset further on.
struct KvLayerPlace {
  int64_t offset = 0;
  int64_t block_stride = 0;
  int64_t head_stride = 0;
  int64_t values_offset = 0;
  int group = 0;  // whose block table leads to this layer's blocks
};

// Block: [layers of the group][num_kv_heads][keys, values]; how the keys (or values) of
// block_tokens tokens and one head lie in their bytes is the backend's.
class KvGeometry {
 public:
  // `head_bytes`: of one token's keys, or values, of one head.
  static int64_t TokenLayerBytes(const model::ModelConfig& config, int64_t head_bytes) {
    return int64_t{2} * config.num_kv_heads * head_bytes;
  }

  KvGeometry() = default;  // of no pool
  // INVALID_ARGUMENT if `layout` does not hold each of the model's layers once or is made for
  // another size; RESOURCE_EXHAUSTED if the bytes cannot be counted.
  static absl::StatusOr<KvGeometry> Make(const model::ModelConfig& config, int64_t head_bytes,
                                         const kv::KvLayout& layout, int32_t num_blocks);

  // INVALID_ARGUMENT for a block outside the pool.
  absl::Status CheckCopies(std::span<const BlockCopy> copies) const;

  bool allocated() const { return !places_.empty(); }
  const kv::KvLayout& layout() const { return layout_; }
  int32_t num_blocks() const { return num_blocks_; }
  int64_t bytes() const { return allocated() ? layout_.block_bytes() * num_blocks_ : 0; }
  const KvLayerPlace& place(int layer) const { return places_[layer]; }

 private:
  kv::KvLayout layout_;
  int32_t num_blocks_ = 0;
  std::vector<KvLayerPlace> places_;  // [num_layers]
};

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_KV_GEOMETRY_H_
