#include "core/sched/waiting_queue.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace luna::sched {
namespace {

bool Before(const Sequence* a, const Sequence* b) {
  if (a->schedule.fair_tag != b->schedule.fair_tag) {
    return a->schedule.fair_tag < b->schedule.fair_tag;
  }
  return a->id() < b->id();
}

}  // namespace

void WaitingQueue::Push(Sequence* sequence) {
  uint64_t& next = next_of_caller_[sequence->caller()];
  next = std::max(next, served_tag_);
  sequence->schedule.fair_tag = next++;
  next_tag_ = std::max(next_tag_, next);
  // Its caller's waiting requests keep their turns and share them out by priority.
  bool moved = false;
  for (auto it = entries_.rbegin(); it != entries_.rend(); ++it) {
    Sequence* other = *it;
    if (other->caller() != sequence->caller() || other->priority() >= sequence->priority())
      continue;
    std::swap(other->schedule.fair_tag, sequence->schedule.fair_tag);
    moved = true;
  }
  if (moved) std::sort(entries_.begin(), entries_.end(), Before);
  PushAgain(sequence);
}

void WaitingQueue::PushAgain(Sequence* sequence) {
  entries_.insert(std::upper_bound(entries_.begin(), entries_.end(), sequence, Before), sequence);
}

void WaitingQueue::PopFront() {
  const uint64_t tag = entries_.front()->schedule.fair_tag;
  entries_.erase(entries_.begin());
  if (tag > served_tag_) {
    served_tag_ = tag;
    absl::erase_if(next_of_caller_, [tag](const auto& entry) { return entry.second <= tag; });
  }
  ForgetIfEmpty();
}

void WaitingQueue::Remove(Sequence* sequence) {
  entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(Position(sequence)));
  ForgetIfEmpty();
}

void WaitingQueue::ForgetIfEmpty() {
  if (!entries_.empty()) return;
  next_of_caller_.clear();
  served_tag_ = next_tag_;
}

bool WaitingQueue::HasRoom(uint64_t caller, size_t limit) const {
  if (entries_.size() < limit) return true;
  absl::flat_hash_map<uint64_t, size_t> waiting = {{caller, 0}};
  for (const Sequence* sequence : entries_) ++waiting[sequence->caller()];
  return waiting[caller] < limit / waiting.size();
}

size_t WaitingQueue::Position(const Sequence* sequence) const {
  const auto it = std::find(entries_.begin(), entries_.end(), sequence);
  LUNA_CHECK(it != entries_.end()) << "sequence " << sequence->id() << " does not wait";
  return static_cast<size_t>(it - entries_.begin());
}

}  // namespace luna::sched
