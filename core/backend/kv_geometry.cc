#include "core/backend/kv_geometry.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace luna::backend {
namespace {

absl::Status CheckLayout(const model::ModelConfig& config, int64_t token_layer_bytes,
                         const kv::KvLayout& layout, int32_t num_blocks) {
  if (num_blocks <= 0 || layout.block_tokens <= 0 || layout.groups.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("KV pool of ", num_blocks, " blocks of ",
                                                   layout.block_tokens, " tokens in ",
                                                   layout.groups.size(), " layer groups"));
  }
  if (layout.token_layer_bytes != token_layer_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("KV layout has ", layout.token_layer_bytes,
                                                   " bytes a token and layer; this backend has ",
                                                   token_layer_bytes));
  }
  std::vector<int> seen(config.num_layers, 0);
  for (const kv::LayerGroup& group : layout.groups) {
    if (static_cast<int>(group.layers.size()) != layout.layers_per_group()) {
      return absl::InvalidArgumentError(
          absl::StrCat("KV layout has a group of ", group.layers.size(), " layers among groups of ",
                       layout.layers_per_group()));
    }
    for (int layer : group.layers) {
      if (layer < 0 || layer >= config.num_layers || seen[layer]++ != 0 ||
          group.window != config.layers[layer].sliding_window) {
        return absl::InvalidArgumentError(
            absl::StrCat("KV layout has layer ", layer, " twice, out of range or under window ",
                         group.window, "; the model has ", config.num_layers, " layers"));
      }
    }
  }
  for (int layer = 0; layer < config.num_layers; ++layer) {
    if (seen[layer] == 0) {
      return absl::InvalidArgumentError(absl::StrCat("KV layout has no place for layer ", layer));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KvGeometry> KvGeometry::Make(const model::ModelConfig& config, int64_t head_bytes,
                                            const kv::KvLayout& layout, int32_t num_blocks) {
  LUNA_RETURN_IF_ERROR(
      CheckLayout(config, TokenLayerBytes(config, head_bytes), layout, num_blocks));
  if (layout.block_bytes() > std::numeric_limits<int64_t>::max() / num_blocks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV pool of ", num_blocks, " blocks of ", layout.block_bytes(), " bytes"));
  }
  KvGeometry geometry;
  geometry.layout_ = layout;
  geometry.num_blocks_ = num_blocks;
  const int64_t values_offset = head_bytes * layout.block_tokens;
  geometry.places_.resize(config.num_layers);
  for (int g = 0; g < layout.num_groups(); ++g) {
    for (int i = 0; i < layout.layers_per_group(); ++i) {
      geometry.places_[layout.groups[g].layers[i]] = {
          .offset = i * layout.token_layer_bytes * layout.block_tokens,
          .block_stride = layout.block_bytes(),
          .head_stride = 2 * values_offset,
          .values_offset = values_offset,
          .group = g};
    }
  }
  return geometry;
}

absl::Status KvGeometry::CheckCopies(std::span<const BlockCopy> copies) const {
  const auto inside = [this](BlockId id) { return id.value() >= 0 && id.value() < num_blocks_; };
  for (const BlockCopy& copy : copies) {
    if (!inside(copy.from) || !inside(copy.to)) {
      return absl::InvalidArgumentError(absl::StrCat("copy of block ", copy.from.value(), " to ",
                                                     copy.to.value(), "; the pool has ",
                                                     num_blocks_));
    }
  }
  return absl::OkStatus();
}

}  // namespace luna::backend
