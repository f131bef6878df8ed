// What goes into one step of a backend and what comes out: flat arrays, reused from tick to tick.
#ifndef LUNA_CORE_BATCH_BATCH_H_
#define LUNA_CORE_BATCH_BATCH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/sample/sampler.h"

namespace luna::batch {

constexpr TokenId PendingToken(int sample) { return -1 - sample; }
constexpr bool IsPending(TokenId token) { return token < 0; }
constexpr int PendingSample(TokenId token) { return -1 - token; }

// Sequence s computes tokens [sequence_starts[s], sequence_starts[s + 1]) of this step: one for a
// decode, several for a chunk of its prompt, at consecutive positions. Their keys and values are
// stored into the sequence's blocks first, then read back as stored; token at position p attends to
// positions 0..p of its own sequence (within the layer's window). Layout only: who runs and with
// how many tokens was decided by the scheduler.
//
// A token that the step launched just before this one chooses, and whose id the host has not read
// yet, stands as PendingToken(its index among that step's samples). Only backends whose depth() is
// above 1 are given such batches.
struct Batch {
  uint64_t step = 0;                     // for logs and traces
  std::vector<TokenId> token_ids;        // [num_tokens]
  std::vector<int32_t> positions;        // [num_tokens]
  std::vector<int32_t> sequence_starts;  // [num_sequences + 1]
  std::vector<int32_t> context_lengths;  // [num_sequences] tokens with KV after this step
  // Block ids, kv::kNoBlock for a block that a window has left behind. The table of sequence s in
  // layer group g is block_tables[block_table_starts[g * num_sequences + s] ...]; its entry i holds
  // positions [i * block_tokens, (i + 1) * block_tokens).
  std::vector<int32_t> block_tables;
  std::vector<int32_t> block_table_starts;  // [num_groups * num_sequences + 1]
  std::vector<sample::SampleSpec> samples;  // rows ascending; rows without one need no logits

  int num_tokens() const { return static_cast<int>(token_ids.size()); }
  int num_sequences() const { return static_cast<int>(context_lengths.size()); }
  std::span<const int32_t> block_table(int group, int sequence) const {
    const size_t i = static_cast<size_t>(group) * context_lengths.size() + sequence;
    return {block_tables.data() + block_table_starts[i],
            static_cast<size_t>(block_table_starts[i + 1] - block_table_starts[i])};
  }
  void Clear();
};

struct StepResult {
  std::vector<sample::SampledToken> samples;  // [batch.samples], same order
};

}  // namespace luna::batch

#endif  // LUNA_CORE_BATCH_BATCH_H_
