// Who waits for a place in the batch, in the order in which they will get it.
#ifndef LUNA_CORE_SCHED_WAITING_QUEUE_H_
#define LUNA_CORE_SCHED_WAITING_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/sched/sequence.h"

namespace luna::sched {

// First come, first served, but fair among callers: they take turns, so the tenth request of one
// stands behind the first of another (start-time fair queueing with requests of size one: P. Goyal,
// H. Vin, H. Cheng, "Start-time fair queueing", SIGCOMM 1996). Everybody's wait is bounded by what
// stood before it and one turn of every other caller for each request of its own before this one.
// Priority orders the requests of one caller and gives it nothing at the cost of another. Borrows
// the sequences. Engine thread only.
class WaitingQueue {
 public:
  void Push(Sequence* sequence);
  // Back to where it stood: a preempted sequence is before all that came after it.
  void PushAgain(Sequence* sequence);
  Sequence* front() const { return entries_.front(); }
  void PopFront();
  void Remove(Sequence* sequence);

  // Whether one more of `caller` may wait where `limit` in all may. A caller that has less than an
  // equal share of the limit may always, so that one that fills the line shuts nobody out: at most
  // twice the limit wait.
  bool HasRoom(uint64_t caller, size_t limit) const;
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // How many stand before it.
  size_t Position(const Sequence* sequence) const;
  const std::vector<Sequence*>& entries() const { return entries_; }

 private:
  // Nobody waits: what was served before counts no more.
  void ForgetIfEmpty();

  std::vector<Sequence*> entries_;  // in order
  uint64_t served_tag_ = 0;         // the largest tag that was served
  uint64_t next_tag_ = 0;           // above all tags that were given
  // By caller, the turn after the last that it was given, while somebody waits.
  absl::flat_hash_map<uint64_t, uint64_t> next_of_caller_;
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_WAITING_QUEUE_H_
