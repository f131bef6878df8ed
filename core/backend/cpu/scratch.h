// The memory of a step's intermediate values, sized once.
#ifndef LUNA_CORE_BACKEND_CPU_SCRATCH_H_
#define LUNA_CORE_BACKEND_CPU_SCRATCH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/backend/cpu/product.h"
#include "core/backend/mapped_memory.h"
#include "core/model/config.h"

namespace luna::backend::cpu {

// [rows, stride] f32, row-major; only the first columns of a row may carry meaning.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;
  float* row(int64_t r) const { return data + r * stride; }
};

// Rows whose logits are made at a time; more are done in turns.
inline constexpr int kLogitRows = 64;

// Rows as a product reads them: prepared for it, or where it takes f32, the rows themselves.
struct PreparedRows {
  std::byte* data = nullptr;
  int64_t stride = 0;  // bytes
  std::byte* row(int64_t r) const { return data + r * stride; }
};

struct Scratch {
  // RESOURCE_EXHAUSTED. Pages that no step has needed are not committed.
  // `inner`, `outer`: as in PackedWeights::Pack.
  static absl::StatusOr<Scratch> Make(const model::ModelConfig& config, const Product& inner,
                                      const Product& outer, int max_batch_tokens, int num_threads);

  Rows hidden;     // [max_batch_tokens, hidden] the residual stream
  Rows normed;     // [max_batch_tokens, hidden]
  Rows projected;  // [max_batch_tokens, hidden] a product that a norm follows
  Rows qkv;        // [max_batch_tokens, q_size + 2 * kv_size]
  Rows attended;   // [max_batch_tokens, q_size]
  Rows up;         // [max_batch_tokens, intermediate, or gate and up in panels]
  Rows activated;  // [max_batch_tokens, intermediate]
  Rows logits;     // [kLogitRows, vocab]
  Rows scores;     // [num_threads * AttendQueries, context and some]
  // What is multiplied, of the rows of the same name.
  PreparedRows prepared_normed, prepared_attended, prepared_activated;
  MappedMemory memory;
};

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_SCRATCH_H_
