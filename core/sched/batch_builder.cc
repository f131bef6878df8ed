#include "core/sched/batch_builder.h"

#include <algorithm>

namespace luna::sched {

void BuildBatch(const StepPlan& plan, const kv::KvLayout& layout, uint64_t step,
                batch::Batch& batch) {
  batch.Clear();
  batch.step = step;
  batch.sequence_starts.push_back(0);
  for (const StepPlan::Row& row : plan.rows) {
    const std::span<const TokenId> tokens = row.sequence->tokens();
    for (int position = row.first; position < row.first + row.num_tokens; ++position) {
      batch.token_ids.push_back(row.pending < 0 ? tokens[position]
                                                : batch::PendingToken(row.pending));
      batch.positions.push_back(position);
    }
    batch.sequence_starts.push_back(batch.num_tokens());
    batch.context_lengths.push_back(row.first + row.num_tokens);
    if (row.samples) {
      batch.samples.push_back(row.sequence->Sample(batch.num_tokens() - 1, row.pending));
    }
  }
  batch.block_table_starts.push_back(0);
  for (int group = 0; group < layout.num_groups(); ++group) {
    for (const StepPlan::Row& row : plan.rows) {
      const std::span<const int32_t> table = row.sequence->cache().kv.table(group);
      batch.block_tables.insert(batch.block_tables.end(), table.begin(), table.end());
      batch.block_table_starts.push_back(static_cast<int32_t>(batch.block_tables.size()));
    }
  }
}

void ReserveBatch(const kv::KvLayout& layout, int max_batch_tokens, int max_running,
                  int64_t num_blocks, int context_length, batch::Batch& batch) {
  batch.token_ids.reserve(max_batch_tokens);
  batch.positions.reserve(max_batch_tokens);
  batch.sequence_starts.reserve(max_running + 1);
  batch.context_lengths.reserve(max_running);
  batch.samples.reserve(max_running);
  batch.block_table_starts.reserve(int64_t{layout.num_groups()} * max_running + 1);
  // Without windows no entry stands for a block that is gone, so there are no more than blocks.
  const int64_t entries =
      int64_t{max_running} * layout.num_groups() * (context_length / layout.block_tokens + 1);
  batch.block_tables.reserve(layout.windowed() ? entries : std::min(entries, num_blocks));
}

}  // namespace luna::sched
