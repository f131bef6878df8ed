#include "core/sched/waiting_queue.h"

#include <algorithm>

#include "core/base/check.h"

namespace luna::sched {
namespace {

bool Before(const Sequence* a, const Sequence* b) {
  if (a->priority() != b->priority()) return a->priority() > b->priority();
  if (a->schedule.fair_tag != b->schedule.fair_tag) {
    return a->schedule.fair_tag < b->schedule.fair_tag;
  }
  return a->id() < b->id();
}

}  // namespace

void WaitingQueue::Push(Sequence* sequence) {
  uint64_t tag = admitted_tag_;
  for (const Sequence* other : entries_) {
    if (other->caller() == sequence->caller() && other->priority() == sequence->priority()) {
      tag = std::max(tag, other->schedule.fair_tag + 1);
    }
  }
  sequence->schedule.fair_tag = tag;
  PushAgain(sequence);
}

void WaitingQueue::PushAgain(Sequence* sequence) {
  entries_.insert(std::upper_bound(entries_.begin(), entries_.end(), sequence, Before), sequence);
}

void WaitingQueue::PopFront() {
  admitted_tag_ = std::max(admitted_tag_, entries_.front()->schedule.fair_tag);
  entries_.erase(entries_.begin());
}

void WaitingQueue::Remove(Sequence* sequence) {
  entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(Position(sequence)));
}

size_t WaitingQueue::Position(const Sequence* sequence) const {
  const auto it = std::find(entries_.begin(), entries_.end(), sequence);
  LUNA_CHECK(it != entries_.end()) << "sequence " << sequence->id() << " does not wait";
  return static_cast<size_t>(it - entries_.begin());
}

}  // namespace luna::sched
