// Who may join the batch.
#include <algorithm>

#include "core/sched/scheduler.h"

namespace luna::sched {

// What `sequence` needs beyond what it holds, in order to compute all tokens it has one by one: a
// larger chunk of a windowed model needs more, and is made only of what is spare.
int64_t Scheduler::Outstanding(const Sequence& sequence) const {
  const int64_t needed = layout_->BlocksForTokens(sequence.num_tokens(), 1);
  return std::max<int64_t>(0, needed - sequence.cache().kv.held_blocks());
}

int64_t Scheduler::Outstanding() const {
  int64_t sum = 0;
  for (const Sequence* sequence : running_) sum += Outstanding(*sequence);
  return sum;
}

// The blocks it will need next, if it still grows: one step of growth for each is left free at
// admission, so that who comes in does not push somebody out right away.
int64_t Scheduler::Growth(const Sequence& sequence) const {
  const int64_t soon = std::min<int64_t>(sequence.num_tokens() + layout_->block_tokens,
                                         sequence.final_computed_tokens());
  return std::max<int64_t>(
      0, layout_->BlocksForTokens(soon, 1) - layout_->BlocksForTokens(sequence.num_tokens(), 1));
}

int64_t Scheduler::Supply() const { return pool_->free_blocks() + idle_.Reclaimable(); }

bool Scheduler::Fits(const Sequence& sequence) const {
  // Its own cache is no supply to it.
  const int64_t supply = Supply() - sequence.cache().kv.held_blocks();
  int64_t demand = Outstanding() + Outstanding(sequence);
  if (!running_.empty()) {
    demand += Growth(sequence);
    for (const Sequence* other : running_) demand += Growth(*other);
  }
  return demand <= supply;
}

// Strictly in line: who is small does not overtake who is large, or the large one would starve.
void Scheduler::Admit() {
  while (!waiting_.empty() && static_cast<int>(running_.size()) < options_.max_running &&
         Fits(*waiting_.front())) {
    Sequence* sequence = waiting_.front();
    waiting_.PopFront();
    idle_.Remove(&sequence->cache());
    Sequence::Schedule& schedule = sequence->schedule;
    schedule.running = true;
    schedule.launched_tokens = sequence->cache().kv.computed_tokens();
    if (!schedule.was_admitted) {
      schedule.was_admitted = true;
      schedule.cached_tokens = schedule.launched_tokens;
      sequence->Reserve();
    }
    running_.push_back(sequence);
  }
}

}  // namespace luna::sched
