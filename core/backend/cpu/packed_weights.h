// Weights in the form that the kernels read: in one format, in panels of kPanel outputs.
#ifndef LUNA_CORE_BACKEND_CPU_PACKED_WEIGHTS_H_
#define LUNA_CORE_BACKEND_CPU_PACKED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backend/cpu/product.h"
#include "core/backend/cpu/worker_pool.h"
#include "core/backend/mapped_memory.h"
#include "core/model/model.h"

namespace luna::backend::cpu {

// Views into PackedWeights.
struct PackedMatrix {
  const Product* product = nullptr;   // which multiplies with it
  const std::byte* panels = nullptr;  // [num_panels], as the product lays them out
  const float* bias = nullptr;        // [num_panels * kPanel] or null
  int inputs = 0;
  int num_panels = 0;
};

// What matrices are packed for: those that the file has in 4 bits for `q4`, unless it is null, the
// others for `general`. Both take the same prepared rows.
struct MatrixProducts {
  const Product* general = nullptr;
  const Product* q4 = nullptr;
};

struct PackedLayer {
  const float *attention_norm = nullptr, *attention_norm_bias = nullptr;  // [hidden]
  PackedMatrix qkv;                                  // outputs: q, k, v, one after the other
  const float *q_norm = nullptr, *k_norm = nullptr;  // [head_dim] or null
  PackedMatrix attention_output;
  const float* attention_post_norm = nullptr;  // [hidden] or null
  const float *ffn_norm = nullptr, *ffn_norm_bias = nullptr;
  // Gated: a panel of gate, then the same outputs' panel of up, and so on. Otherwise up alone.
  PackedMatrix up;
  PackedMatrix down;
  const float* ffn_post_norm = nullptr;  // [hidden] or null
};

// Whether a layer has a matrix in Q4_0 or Q4_1.
bool HasQ4(const model::Model& model);

// Const after it is made. The token embedding stays as it lies in the file: a step reads single
// rows.
class PackedWeights {
 public:
  // `inner` is for the matrices whose errors all later layers see and multiply, `outer` for `down`
  // and the head; the products must last. RESOURCE_EXHAUSTED if the memory does not suffice. Uses
  // all of `pool`.
  static absl::StatusOr<PackedWeights> Pack(const model::Model& model, const MatrixProducts& inner,
                                            const MatrixProducts& outer, WorkerPool& pool,
                                            const std::function<void(double)>& on_progress);

  const std::vector<PackedLayer>& layers() const { return layers_; }
  const float* final_norm() const { return final_norm_; }            // [hidden]
  const float* final_norm_bias() const { return final_norm_bias_; }  // [hidden] or null
  const PackedMatrix& head() const { return head_; }
  int64_t bytes() const { return memory_.bytes(); }
  // Products that one row takes.
  int64_t num_products() const { return num_products_; }

 private:
  friend class Packer;
  MappedMemory memory_;
  std::vector<PackedLayer> layers_;
  const float* final_norm_ = nullptr;
  const float* final_norm_bias_ = nullptr;
  PackedMatrix head_;
  int64_t num_products_ = 0;
};

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_PACKED_WEIGHTS_H_
