// Who waits for a place in the batch, and who gets one first.
#ifndef LUNA_CORE_SCHED_WAITING_QUEUE_H_
#define LUNA_CORE_SCHED_WAITING_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/sched/fair_shares.h"
#include "core/sched/sequence.h"

namespace luna::sched {

// Callers are served by what they have been given so far, and what stands before in the same line
// counts: the tenth request of one stands behind the first of another. Of one caller's requests the
// higher priority comes first, then what had been admitted before, the oldest of it first, then the
// session that was given less, then what came first. Borrows the sequences. Engine thread only.
class WaitingQueue {
 public:
  void Push(Sequence* sequence) { entries_.push_back(sequence); }
  void Remove(Sequence* sequence);

  // Borrowed until the next call.
  const std::vector<Sequence*>& InOrder(const FairShares& shares);
  // How many stand before it.
  size_t Position(const Sequence* sequence, const FairShares& shares);

  // Whether `count` more of `caller` may wait where `limit` in all may. A caller that has less than
  // an equal share of the limit may always, so that one that fills the line shuts nobody out: at
  // most twice the limit wait.
  bool HasRoom(uint64_t caller, size_t count, size_t limit) const;
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  const std::vector<Sequence*>& entries() const { return entries_; }  // as they came

 private:
  // A caller's requests, in by_caller_, and what it will have been given when the first is served.
  struct Lane {
    uint64_t served;
    size_t begin, end;
  };

  std::vector<Sequence*> entries_;
  std::vector<Sequence*> by_caller_, order_;  // scratch of InOrder
  std::vector<Lane> lanes_;                   // a heap
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_WAITING_QUEUE_H_
