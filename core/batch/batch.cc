#include "core/batch/batch.h"

namespace luna::batch {

void Batch::Clear() {
  token_ids.clear();
  positions.clear();
  sequence_starts.clear();
  context_lengths.clear();
  block_tables.clear();
  block_table_starts.clear();
  samples.clear();
}

}  // namespace luna::batch
