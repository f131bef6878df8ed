// The bytes behind the block ids.
#ifndef LUNA_CORE_BACKEND_KV_POOL_H_
#define LUNA_CORE_BACKEND_KV_POOL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "core/backend/backend.h"
#include "core/backend/kv_geometry.h"
#include "core/backend/mapped_memory.h"
#include "core/kv/layout.h"
#include "core/model/config.h"

namespace luna::backend {

// KvLayerPlace in memory.
//   keys of (block, kv head h): data + block * block_stride + h * head_stride
//   its values: values_offset further on.
struct KvLayerView {
  std::byte* data = nullptr;
  int64_t block_stride = 0;
  int64_t head_stride = 0;
  int64_t values_offset = 0;
  int group = 0;
};

// Engine thread allocates; while a step runs, workers read and write through the views.
class KvPool {
 public:
  // As KvGeometry::Make; FAILED_PRECONDITION if there is a pool already; RESOURCE_EXHAUSTED.
  absl::Status Allocate(const model::ModelConfig& config, int64_t head_bytes,
                        const kv::KvLayout& layout, int32_t num_blocks);
  // INVALID_ARGUMENT for a block outside the pool; then nothing was copied.
  absl::Status Copy(std::span<const BlockCopy> copies);

  const KvGeometry& geometry() const { return geometry_; }
  const kv::KvLayout& layout() const { return geometry_.layout(); }
  KvLayerView view(int layer) const;

 private:
  KvGeometry geometry_;
  MappedMemory memory_;
};

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_KV_POOL_H_
