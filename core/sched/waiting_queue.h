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
  // What its place depends on beside what its caller is given stays as it is while it waits.
  void Push(Sequence* sequence);
  void Remove(Sequence* sequence);

  // Those who wait, one by one in their order, which costs only as far as one looks. Of a queue
  // that does not change; one at a time.
  class Line {
   public:
    // Null at the end.
    Sequence* Next();

   private:
    friend class WaitingQueue;
    explicit Line(WaitingQueue* queue) : queue_(queue) {}

    WaitingQueue* queue_;
  };
  Line InOrder(const FairShares& shares);
  // How many stand before it.
  size_t Position(const Sequence* sequence, const FairShares& shares);

  // Whether `count` more of `caller` may wait where `limit` in all may. A caller that has less than
  // an equal share of the limit may always, so that one that fills the line shuts nobody out: at
  // most twice the limit wait.
  bool HasRoom(uint64_t caller, size_t count, size_t limit) const;
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  const std::vector<Sequence*>& entries() const { return entries_; }  // in no order of theirs

 private:
  // A caller's requests, in entries_, and what it will have been given when the first is served.
  struct Lane {
    uint64_t served;
    size_t begin, end;
  };

  bool Later(const Lane& a, const Lane& b) const;

  std::vector<Sequence*> entries_;  // by caller, each caller's in the order of its lane
  std::vector<Lane> lanes_;         // of the line that is being looked at: a heap
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_WAITING_QUEUE_H_
