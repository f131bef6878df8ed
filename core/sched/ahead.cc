// The step after the one in flight: what can be planned before its tokens are known.
#include "core/base/check.h"
#include "core/sched/scheduler.h"

namespace luna::sched {

// Whoever has a token coming gets a row for it, unless it is certain to be its last. That it ends
// its sequence all the same, by a stop, is seen when it is known; the row is superfluous then.
const StepPlan* Scheduler::PlanAhead() {
  LUNA_CHECK_EQ(in_flight_, size_t{1});
  if (!options_.keep_kv || SomebodyCouldJoin()) return nullptr;
  spare_ = Supply() - Claims();
  if (spare_ < 0 || !HasRoomForDecodes()) return nullptr;
  StepPlan& plan = next_plan();
  plan.Clear();
  AllotDecodes();
  AllotPrefills();
  if (plan.rows.empty()) return nullptr;
  ++in_flight_;
  std::swap(plan.copies, copies_);
  return &plan;
}

// What windows will have left behind when the step in flight is committed is still held, and not
// paid for.
bool Scheduler::HasRoomForDecodes() {
  int64_t spare = spare_, missing = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->remaining_tokens() != 1) continue;
    const Reach reach = ReachOf(*sequence, 1, spare);
    if (reach.end <= sequence->schedule.launched_tokens) return false;
    spare -= reach.unpaid;
    missing += reach.missing;
  }
  idle_.MakeAvailable(missing);
  return pool_->available_blocks() >= missing;
}

}  // namespace luna::sched
