// Who waits for a place in the batch, in the order in which they will get it.
#ifndef LUNA_CORE_SCHED_WAITING_QUEUE_H_
#define LUNA_CORE_SCHED_WAITING_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/sched/sequence.h"

namespace luna::sched {

// Higher priority first; within a priority first come, first served, but fair among callers: the
// tenth request of one caller stands behind the first of another (start-time fair queueing with
// requests of size one: P. Goyal, H. Vin, H. Cheng, "Start-time fair queueing", SIGCOMM 1996).
// Everybody's wait is bounded by what stood before it. Borrows the sequences. Engine thread only.
class WaitingQueue {
 public:
  void Push(Sequence* sequence);
  // Back to where it stood: a preempted sequence is before all that came after it.
  void PushAgain(Sequence* sequence);
  Sequence* front() const { return entries_.front(); }
  void PopFront();
  void Remove(Sequence* sequence);

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // How many stand before it.
  size_t Position(const Sequence* sequence) const;
  const std::vector<Sequence*>& entries() const { return entries_; }

 private:
  std::vector<Sequence*> entries_;  // in order
  uint64_t admitted_tag_ = 0;       // the largest tag that was served
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_WAITING_QUEUE_H_
