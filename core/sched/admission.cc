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
    Join(sequence);
  }
}

void Scheduler::Join(Sequence* sequence) {
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

// The first in line of a caller that would still have fewer places than `richest` with one more.
Sequence* Scheduler::FirstOfPoorer(uint64_t richest, int places) const {
  for (Sequence* sequence : waiting_.entries()) {
    if (sequence->caller() == richest) continue;
    const auto own = places_.find(sequence->caller());
    if ((own == places_.end() ? 0 : own->second) + 1 < places) return sequence;
  }
  return nullptr;
}

// One caller may fill the batch while it is alone; as soon as another waits, its newest sequences
// give up their places until both have as many. They stand in line again where they stood and lose
// nothing.
void Scheduler::ShareOut() {
  if (static_cast<int>(running_.size()) < options_.max_running) return;
  while (!waiting_.empty()) {
    places_.clear();
    for (const Sequence* sequence : running_) ++places_[sequence->caller()];
    const auto richest = std::max_element(places_.begin(), places_.end(),
                                          [](auto& a, auto& b) { return a.second < b.second; });
    Sequence* poorer = FirstOfPoorer(richest->first, richest->second);
    if (poorer == nullptr || !Fits(*poorer)) return;
    Sequence* newest = nullptr;
    for (Sequence* sequence : running_) {
      if (sequence->caller() != richest->first || sequence->schedule.preempted_since_token)
        continue;
      if (newest == nullptr || sequence->id() > newest->id()) newest = sequence;
    }
    if (newest == nullptr) return;
    Preempt(newest);
    waiting_.Remove(poorer);
    Join(poorer);
  }
}

}  // namespace luna::sched
