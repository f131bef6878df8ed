// Rotary position embedding: the angles of a step's tokens.
#ifndef LUNA_CORE_BACKEND_ROPE_TABLE_H_
#define LUNA_CORE_BACKEND_ROPE_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/config.h"

namespace luna::backend {

// Radians a position, for each pair (i, i + head_dim / 2): theta^(-2i / head_dim), then scaled as
// the model says. J. Su et al., "RoFormer", 2021; Llama 3.1's scaling as its reference code applies
// it: long wavelengths are divided by `factor`, short ones kept, those between interpolated.
std::vector<float> RopeFrequencies(const model::ModelConfig& config,
                                   const model::LayerConfig& layer);

// Cosine and sine of a step's positions, once for all layers that share their frequencies.
// Allocates only when it is made. An entry depends on its own position alone.
class RopeTable {
 public:
  RopeTable() = default;
  RopeTable(const model::ModelConfig& config, int max_tokens);

  // `positions` [num_tokens], num_tokens <= max_tokens.
  void Fill(std::span<const int32_t> positions);

  const float* cosines(int layer, int row) const {  // [head_dim / 2]
    return kinds_[kind_of_layer_[layer]].cosines.data() + int64_t{row} * half_;
  }
  const float* sines(int layer, int row) const {  // [head_dim / 2]
    return kinds_[kind_of_layer_[layer]].sines.data() + int64_t{row} * half_;
  }
  int half() const { return half_; }

 private:
  struct Kind {
    std::vector<float> frequencies;     // [half]
    std::vector<float> cosines, sines;  // [max_tokens, half]
  };
  int half_ = 0;
  std::vector<int> kind_of_layer_;  // [num_layers]
  std::vector<Kind> kinds_;
};

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_ROPE_TABLE_H_
