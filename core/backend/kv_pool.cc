#include "core/backend/kv_pool.h"

#include <cstring>

#include "core/base/status_macros.h"

namespace luna::backend {

absl::Status KvPool::Allocate(const model::ModelConfig& config, int64_t head_bytes,
                              const kv::KvLayout& layout, int32_t num_blocks) {
  if (geometry_.allocated())
    return absl::FailedPreconditionError("the KV pool is allocated already");
  LUNA_ASSIGN_OR_RETURN(KvGeometry geometry,
                        KvGeometry::Make(config, head_bytes, layout, num_blocks));
  LUNA_ASSIGN_OR_RETURN(memory_, MappedMemory::Allocate("KV pool", geometry.bytes()));
  geometry_ = std::move(geometry);
  return absl::OkStatus();
}

KvLayerView KvPool::view(int layer) const {
  const KvLayerPlace& place = geometry_.place(layer);
  return {.data = memory_.data() + place.offset,
          .block_stride = place.block_stride,
          .head_stride = place.head_stride,
          .values_offset = place.values_offset,
          .group = place.group};
}

absl::Status KvPool::Copy(std::span<const BlockCopy> copies) {
  LUNA_RETURN_IF_ERROR(geometry_.CheckCopies(copies));
  const int64_t bytes = geometry_.allocated() ? layout().block_bytes() : 0;
  for (const BlockCopy& copy : copies) {
    if (copy.from == copy.to) continue;
    std::memcpy(memory_.data() + copy.to.value() * bytes,
                memory_.data() + copy.from.value() * bytes, static_cast<size_t>(bytes));
  }
  return absl::OkStatus();
}

}  // namespace luna::backend
