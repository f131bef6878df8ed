#include "core/sched/waiting_queue.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "core/base/check.h"

namespace luna::sched {
namespace {

// Put off by its caller's other sessions, it goes by what it was given like any other.
bool ComesBack(const Sequence* sequence) {
  return sequence->schedule.was_admitted && !sequence->schedule.gave_way;
}

bool BeforeInLane(const Sequence* a, const Sequence* b) {
  if (a->priority() != b->priority()) return a->priority() > b->priority();
  if (ComesBack(a) != ComesBack(b)) return ComesBack(a);
  if (ComesBack(a)) return a->id() < b->id();
  const uint64_t of_a = a->cache().served_tokens, of_b = b->cache().served_tokens;
  return of_a != of_b ? of_a < of_b : a->id() < b->id();
}

bool BeforeInEntries(const Sequence* a, const Sequence* b) {
  return a->caller() != b->caller() ? a->caller() < b->caller() : BeforeInLane(a, b);
}

}  // namespace

void WaitingQueue::Push(Sequence* sequence) {
  entries_.insert(std::ranges::upper_bound(entries_, sequence, BeforeInEntries), sequence);
}

void WaitingQueue::Remove(Sequence* sequence) {
  const auto it = std::ranges::find(entries_, sequence);
  LUNA_CHECK(it != entries_.end()) << "sequence " << sequence->id() << " does not wait";
  entries_.erase(it);
}

bool WaitingQueue::Later(const Lane& a, const Lane& b) const {
  if (a.served != b.served) return a.served > b.served;
  return entries_[a.begin]->id() > entries_[b.begin]->id();
}

WaitingQueue::Line WaitingQueue::InOrder(const FairShares& shares) {
  lanes_.clear();
  for (size_t begin = 0, end = 0; begin < entries_.size(); begin = end) {
    const uint64_t caller = entries_[begin]->caller();
    while (end < entries_.size() && entries_[end]->caller() == caller) ++end;
    lanes_.push_back({shares.served(caller), begin, end});
  }
  std::ranges::make_heap(lanes_, [this](auto& a, auto& b) { return Later(a, b); });
  return Line(this);
}

Sequence* WaitingQueue::Line::Next() {
  std::vector<Lane>& lanes = queue_->lanes_;
  if (lanes.empty()) return nullptr;
  const auto later = [this](const Lane& a, const Lane& b) { return queue_->Later(a, b); };
  std::ranges::pop_heap(lanes, later);
  Lane& lane = lanes.back();
  Sequence* next = queue_->entries_[lane.begin++];
  lane.served += static_cast<uint64_t>(next->tokens_to_charge());
  if (lane.begin == lane.end) {
    lanes.pop_back();
  } else {
    std::ranges::push_heap(lanes, later);
  }
  return next;
}

size_t WaitingQueue::Position(const Sequence* sequence, const FairShares& shares) {
  size_t before = 0;
  Line line = InOrder(shares);
  for (Sequence* one = line.Next(); one != sequence; one = line.Next()) {
    LUNA_CHECK(one != nullptr) << "sequence " << sequence->id() << " does not wait";
    ++before;
  }
  return before;
}

bool WaitingQueue::HasRoom(uint64_t caller, size_t count, size_t limit) const {
  if (entries_.size() + count <= limit) return true;
  absl::flat_hash_map<uint64_t, size_t> waiting = {{caller, 0}};
  for (const Sequence* sequence : entries_) ++waiting[sequence->caller()];
  return waiting[caller] + count <= limit / waiting.size();
}

}  // namespace luna::sched
