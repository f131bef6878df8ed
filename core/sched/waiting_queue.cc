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

}  // namespace

void WaitingQueue::Remove(Sequence* sequence) {
  const auto it = std::find(entries_.begin(), entries_.end(), sequence);
  LUNA_CHECK(it != entries_.end()) << "sequence " << sequence->id() << " does not wait";
  entries_.erase(it);
}

const std::vector<Sequence*>& WaitingQueue::InOrder(const FairShares& shares) {
  by_caller_ = entries_;
  std::sort(by_caller_.begin(), by_caller_.end(), [](const Sequence* a, const Sequence* b) {
    return a->caller() != b->caller() ? a->caller() < b->caller() : BeforeInLane(a, b);
  });
  lanes_.clear();
  for (size_t begin = 0, end = 0; begin < by_caller_.size(); begin = end) {
    const uint64_t caller = by_caller_[begin]->caller();
    while (end < by_caller_.size() && by_caller_[end]->caller() == caller) ++end;
    lanes_.push_back({shares.served(caller), begin, end});
  }
  const auto later = [this](const Lane& a, const Lane& b) {
    if (a.served != b.served) return a.served > b.served;
    return by_caller_[a.begin]->id() > by_caller_[b.begin]->id();
  };
  std::make_heap(lanes_.begin(), lanes_.end(), later);
  order_.clear();
  while (!lanes_.empty()) {
    std::pop_heap(lanes_.begin(), lanes_.end(), later);
    Lane& lane = lanes_.back();
    Sequence* next = by_caller_[lane.begin++];
    order_.push_back(next);
    lane.served += static_cast<uint64_t>(next->tokens_to_charge());
    if (lane.begin == lane.end) {
      lanes_.pop_back();
    } else {
      std::push_heap(lanes_.begin(), lanes_.end(), later);
    }
  }
  return order_;
}

size_t WaitingQueue::Position(const Sequence* sequence, const FairShares& shares) {
  const std::vector<Sequence*>& order = InOrder(shares);
  const auto it = std::find(order.begin(), order.end(), sequence);
  LUNA_CHECK(it != order.end()) << "sequence " << sequence->id() << " does not wait";
  return static_cast<size_t>(it - order.begin());
}

bool WaitingQueue::HasRoom(uint64_t caller, size_t count, size_t limit) const {
  if (entries_.size() + count <= limit) return true;
  absl::flat_hash_map<uint64_t, size_t> waiting = {{caller, 0}};
  for (const Sequence* sequence : entries_) ++waiting[sequence->caller()];
  return waiting[caller] + count <= limit / waiting.size();
}

}  // namespace luna::sched
