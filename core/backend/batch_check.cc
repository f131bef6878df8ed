#include "absl/strings/str_cat.h"
#include "core/backend/checks.h"
#include "core/base/status_macros.h"

namespace luna::backend {
namespace {

template <typename... Args>
absl::Status Refuse(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("batch: ", args...));
}

absl::Status CheckSizes(const batch::Batch& batch, int num_groups, int max_batch_tokens) {
  const size_t tokens = batch.token_ids.size();
  const size_t sequences = batch.context_lengths.size();
  if (tokens == 0 || tokens > static_cast<size_t>(max_batch_tokens)) {
    return Refuse(tokens, " tokens; between 1 and ", max_batch_tokens, " are allowed");
  }
  if (batch.positions.size() != tokens || batch.sequence_starts.size() != sequences + 1) {
    return Refuse(batch.positions.size(), " positions and ", batch.sequence_starts.size(),
                  " sequence starts for ", tokens, " tokens of ", sequences, " sequences");
  }
  if (batch.sequence_starts.front() != 0 ||
      batch.sequence_starts.back() != static_cast<int32_t>(tokens)) {
    return Refuse("sequence starts end at ", batch.sequence_starts.back(), "; there are ", tokens,
                  " tokens");
  }
  for (size_t s = 0; s < sequences; ++s) {
    if (batch.sequence_starts[s] >= batch.sequence_starts[s + 1]) {
      return Refuse("sequence ", s, " has no token");
    }
  }
  const size_t tables = sequences * num_groups;
  if (batch.block_table_starts.size() != tables + 1 || batch.block_table_starts.front() != 0 ||
      batch.block_table_starts.back() != static_cast<int32_t>(batch.block_tables.size())) {
    return Refuse(batch.block_table_starts.size(), " block table starts for ", tables,
                  " tables of ", batch.block_tables.size(), " entries");
  }
  for (size_t i = 0; i < tables; ++i) {
    if (batch.block_table_starts[i] > batch.block_table_starts[i + 1]) {
      return Refuse("block table ", i, " ends before it starts");
    }
  }
  return absl::OkStatus();
}

// Positions are consecutive, end at the context length, and lie within the model's context.
absl::Status CheckSequence(const batch::Batch& batch, int s, int context_length) {
  const int begin = batch.sequence_starts[s], end = batch.sequence_starts[s + 1];
  if (batch.positions[begin] < 0 || batch.context_lengths[s] > context_length) {
    return Refuse("sequence ", s, " has positions ", batch.positions[begin], " to ",
                  batch.context_lengths[s] - 1, "; the context is ", context_length);
  }
  for (int row = begin; row < end; ++row) {
    const int64_t expected = int64_t{batch.context_lengths[s]} - (end - row);
    if (batch.positions[row] != expected) {
      return Refuse("row ", row, " has position ", batch.positions[row], "; expected ", expected);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTable(const batch::Batch& batch, const KvGeometry& pool, int group, int s) {
  const kv::KvLayout& layout = pool.layout();
  const std::span<const int32_t> table = batch.block_table(group, s);
  const int first =
      FirstVisible(batch.positions[batch.sequence_starts[s]], layout.groups[group].window) /
      layout.block_tokens;
  const int last = (batch.context_lengths[s] - 1) / layout.block_tokens;
  if (last >= static_cast<int>(table.size())) {
    return Refuse("sequence ", s, " needs ", last + 1, " blocks in group ", group,
                  "; its table has ", table.size());
  }
  for (int i = first; i <= last; ++i) {
    if (table[i] < 0 || table[i] >= pool.num_blocks()) {
      return Refuse("sequence ", s, " has block ", table[i], " in group ", group, "; the pool has ",
                    pool.num_blocks());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBatch(const batch::Batch& batch, const model::ModelConfig& config,
                        const KvGeometry& pool, int max_batch_tokens, int previous_samples) {
  if (!pool.allocated()) return absl::FailedPreconditionError("the KV pool is not allocated");
  const int num_groups = pool.layout().num_groups();
  LUNA_RETURN_IF_ERROR(CheckSizes(batch, num_groups, max_batch_tokens));
  for (int32_t token : batch.token_ids) {
    if (batch::IsPending(token) ? batch::PendingSample(token) >= previous_samples
                                : token >= config.vocab_size) {
      return Refuse("token id ", token, "; the vocabulary has ", config.vocab_size,
                    " and the step before ", previous_samples, " samples");
    }
  }
  for (int s = 0; s < batch.num_sequences(); ++s) {
    LUNA_RETURN_IF_ERROR(CheckSequence(batch, s, config.context_length));
    for (int group = 0; group < num_groups; ++group) {
      LUNA_RETURN_IF_ERROR(CheckTable(batch, pool, group, s));
    }
  }
  int previous = -1;
  for (const sample::SampleSpec& spec : batch.samples) {
    if (spec.row <= previous || spec.row >= batch.num_tokens() || spec.params == nullptr) {
      return Refuse("sampled row ", spec.row, " after row ", previous, " of ", batch.num_tokens());
    }
    if (spec.pending < -1 || spec.pending >= previous_samples) {
      return Refuse("sampled row ", spec.row, " follows sample ", spec.pending, " of ",
                    previous_samples);
    }
    previous = spec.row;
  }
  return absl::OkStatus();
}

}  // namespace luna::backend
