#include "core/backend/cpu/scratch.h"

#include <algorithm>

#include "core/backend/cpu/kernels.h"
#include "core/base/status_macros.h"

namespace luna::backend::cpu {

absl::StatusOr<Scratch> Scratch::Make(const model::ModelConfig& config, int max_batch_tokens,
                                      int num_threads) {
  Scratch scratch;
  const int64_t intermediate = PadToPanel(config.intermediate_size);
  struct Part {
    Rows* rows;
    int64_t count, columns;
  };
  const Part parts[] = {
      {&scratch.hidden, max_batch_tokens, config.hidden_size},
      {&scratch.normed, max_batch_tokens, config.hidden_size},
      {&scratch.projected, max_batch_tokens, config.hidden_size},
      {&scratch.qkv, max_batch_tokens, int64_t{config.q_size()} + 2 * config.kv_size()},
      {&scratch.attended, max_batch_tokens, config.q_size()},
      {&scratch.up, max_batch_tokens, config.gated_ffn ? 2 * intermediate : intermediate},
      {&scratch.activated, max_batch_tokens, intermediate},
      {&scratch.logits, std::min(kLogitRows, max_batch_tokens), config.vocab_size},
      {&scratch.scores, num_threads, int64_t{config.context_length} + kScorePadding},
  };
  int64_t floats = 0;
  for (const Part& part : parts) {
    part.rows->stride = PadToPanel(part.columns);
    floats += part.count * part.rows->stride;
  }
  LUNA_ASSIGN_OR_RETURN(scratch.memory,
                        MappedMemory::Allocate("scratch memory of a step",
                                               floats * static_cast<int64_t>(sizeof(float))));
  float* at = scratch.memory.floats();
  for (const Part& part : parts) {
    part.rows->data = at;
    at += part.count * part.rows->stride;
  }
  return scratch;
}

}  // namespace luna::backend::cpu
