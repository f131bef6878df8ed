// From a plan to the arrays that a backend reads. Layout only: nothing is decided here.
#ifndef LUNA_CORE_SCHED_BATCH_BUILDER_H_
#define LUNA_CORE_SCHED_BATCH_BUILDER_H_

#include <cstdint>

#include "core/batch/batch.h"
#include "core/kv/layout.h"
#include "core/sched/step_plan.h"

namespace luna::sched {

// Of a plan none of whose sequences has left yet. `batch` borrows from them and is valid until they
// change.
void BuildBatch(const StepPlan& plan, const kv::KvLayout& layout, uint64_t step,
                batch::Batch& batch);

// Room for any step, so that a steady tick does not touch the heap.
void ReserveBatch(const kv::KvLayout& layout, int max_batch_tokens, int max_running,
                  int64_t num_blocks, int context_length, batch::Batch& batch);

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_BATCH_BUILDER_H_
