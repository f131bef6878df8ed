// A model's weights in the device's memory.
#ifndef LUNA_CORE_BACKEND_CUDA_DEVICE_WEIGHTS_H_
#define LUNA_CORE_BACKEND_CUDA_DEVICE_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "core/backend/cuda/device_memory.h"
#include "core/backend/cuda/packing.h"
#include "core/model/model.h"

namespace luna::backend::cuda {

struct DeviceMatrix {
  const std::byte* weights = nullptr;  // [tiles, groups], as PackTile makes them
  const float* scales = nullptr;       // int8: [tiles, groups, kTileRows]
  const float* bias = nullptr;         // [tiles, kTileRows] or null
  int tiles = 0, groups = 0;
  int inputs = 0;
};

struct DeviceLayer {
  const float *attention_norm = nullptr, *attention_norm_bias = nullptr;
  DeviceMatrix qkv;  // heads, or, where they are normed, q, k and v one after the other
  const float *q_norm = nullptr, *k_norm = nullptr;  // [head_dim] or null
  DeviceMatrix attention_output;
  const float* attention_post_norm = nullptr;
  const float *ffn_norm = nullptr, *ffn_norm_bias = nullptr;
  DeviceMatrix up;  // gated: eight rows of gate, eight of up
  DeviceMatrix down;
  const float* ffn_post_norm = nullptr;
  const float *cosines = nullptr, *sines = nullptr;  // [context, head_dim / 2], where rotated
};

// Vectors that norms read have zeros behind them, up to a multiple of kGroupInputs.
class DeviceWeights {
 public:
  // f32, bf16 or int8. RESOURCE_EXHAUSTED if the device's memory does not suffice.
  static absl::StatusOr<DeviceWeights> Upload(const model::Model& model, WeightsFormat format,
                                              Device& device,
                                              const std::function<void(double)>& on_progress);

  const std::vector<DeviceLayer>& layers() const { return layers_; }
  const float* final_norm() const { return final_norm_; }
  const float* final_norm_bias() const { return final_norm_bias_; }
  const DeviceMatrix& head() const { return head_; }
  // As long as the longest of them: the bias of a norm that has none.
  const float* zeros() const { return zeros_; }
  // [vocab, hidden] and [context, hidden] or null; f32 where the weights are, else bf16.
  const void* token_embedding() const { return token_embedding_; }
  const void* position_embedding() const { return position_embedding_; }
  bool embeddings_are_bf16() const { return embeddings_are_bf16_; }
  int64_t bytes() const;

 private:
  friend class Uploader;
  std::vector<DeviceMemory> memory_;
  std::vector<DeviceLayer> layers_;
  const float* final_norm_ = nullptr;
  const float* final_norm_bias_ = nullptr;
  const float* zeros_ = nullptr;
  DeviceMatrix head_;
  const void* token_embedding_ = nullptr;
  const void* position_embedding_ = nullptr;
  bool embeddings_are_bf16_ = false;
};

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_DEVICE_WEIGHTS_H_
