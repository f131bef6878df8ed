#include "core/backend/cpu/scratch.h"

#include <algorithm>

#include "core/backend/cpu/kv_format.h"
#include "core/base/status_macros.h"

namespace luna::backend::cpu {

absl::StatusOr<Scratch> Scratch::Make(const model::ModelConfig& config, const Product& inner,
                                      const Product& outer, int max_batch_tokens, int num_threads) {
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
      {&scratch.scores,
       int64_t{num_threads} * AttendQueries(config.num_heads / config.num_kv_heads),
       int64_t{config.context_length} + 2 * kScoreAlign},
  };
  struct Prepared {
    PreparedRows* prepared;
    const Rows* rows;
    int64_t bytes;  // of a row
  };
  const auto row_bytes = [](const Product& product, int inputs) -> int64_t {
    return product.prepare == nullptr ? 0 : product.row_bytes(inputs);
  };
  const Prepared prepared[] = {
      {&scratch.prepared_normed, &scratch.normed,
       std::max(row_bytes(inner, config.hidden_size), row_bytes(outer, config.hidden_size))},
      {&scratch.prepared_attended, &scratch.attended, row_bytes(inner, config.q_size())},
      {&scratch.prepared_activated, &scratch.activated, row_bytes(outer, config.intermediate_size)},
  };
  constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));
  int64_t bytes = 0;
  for (const Part& part : parts) {
    part.rows->stride = PadToPanel(part.columns);
    bytes += part.count * part.rows->stride * kFloatBytes;
  }
  for (const Prepared& part : prepared) bytes += max_batch_tokens * part.bytes;
  LUNA_ASSIGN_OR_RETURN(scratch.memory, MappedMemory::Allocate("scratch memory of a step", bytes));
  std::byte* at = scratch.memory.data();
  for (const Part& part : parts) {
    part.rows->data = reinterpret_cast<float*>(at);
    at += part.count * part.rows->stride * kFloatBytes;
  }
  for (const Prepared& part : prepared) {
    if (part.bytes > 0) {
      *part.prepared = {.data = at, .stride = part.bytes};
      at += max_batch_tokens * part.bytes;
    } else {
      *part.prepared = {.data = reinterpret_cast<std::byte*>(part.rows->data),
                        .stride = part.rows->stride * kFloatBytes};
    }
  }
  return scratch;
}

}  // namespace luna::backend::cpu
