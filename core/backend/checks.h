// What every backend refuses before it computes: weights of the wrong shape and batches that would
// read or write outside their memory.
#ifndef LUNA_CORE_BACKEND_CHECKS_H_
#define LUNA_CORE_BACKEND_CHECKS_H_

#include "absl/status/status.h"
#include "core/backend/backend.h"
#include "core/backend/kv_geometry.h"
#include "core/model/model.h"

namespace luna::backend {

// INVALID_ARGUMENT, naming the tensor, its shape and the expected one, or that it is missing.
absl::Status CheckWeights(const model::Model& model);

// INVALID_ARGUMENT, naming the value and its limit. A batch that passes touches only blocks of the
// pool that its tables name, and every position that a layer sees has a block. `previous_samples`:
// of the step before, where its tokens may be pending.
absl::Status CheckBatch(const batch::Batch& batch, const model::ModelConfig& config,
                        const KvGeometry& pool, int max_batch_tokens, int previous_samples = 0);

// The first position that a token at `position` attends to under `window` (0: all).
inline int FirstVisible(int position, int window) {
  return window == 0 || position < window ? 0 : position - window + 1;
}

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_CHECKS_H_
