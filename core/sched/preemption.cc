// Who must leave the batch.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "core/sched/scheduler.h"

namespace luna::sched {
namespace {

constexpr absl::Duration kRetryAfter = absl::Seconds(1);

}  // namespace

// Decodes grow. Those who were readmitted and have no new token yet do not, and were paid for when
// they came in: so there is somebody else to take first, unless a guarantee that was given since
// takes what was theirs.
void Scheduler::Balance() {
  while (Claims() > Supply()) {
    Sequence* victim = NewestPreemptible(/*again=*/false);
    if (victim == nullptr) victim = NewestPreemptible(/*again=*/true);
    if (victim == nullptr) return;
    Preempt(victim);
  }
}

// The last that came, so that the oldest always gets on; or, before it, a request of the same
// caller that is of lower priority. `again`: those too that were preempted since their last token.
Sequence* Scheduler::NewestPreemptible(bool again) const {
  Sequence* newest = nullptr;
  const auto consider = [&](Sequence* sequence) {
    if (sequence->schedule.preempted_since_token && !again) return;
    const int64_t needed = sequence->cache().kv.held_blocks() + Outstanding(*sequence);
    if (needed > sequence->cache().pool.guaranteed_blocks()) newest = sequence;
  };
  for (Sequence* sequence : running_) {
    if (newest == nullptr || sequence->id() > newest->id()) consider(sequence);
  }
  if (newest == nullptr) return nullptr;
  for (Sequence* sequence : running_) {
    if (sequence->caller() != newest->caller()) continue;
    if (sequence->priority() < newest->priority() ||
        (sequence->priority() == newest->priority() && sequence->id() > newest->id())) {
      consider(sequence);
    }
  }
  return newest;
}

// Its cache becomes idle like any other that nobody computes into: the last tokens go first and
// only as many as are needed. Its tokens, text and random numbers stay, so its words do not change.
void Scheduler::Preempt(Sequence* sequence) {
  LeaveBatch(sequence);
  if (!options_.keep_kv) sequence->cache().kv.Truncate(0);
  sequence->schedule.preempted_since_token = true;
  ++sequence->schedule.preemptions;
  ++preemptions_;
  waiting_.Push(sequence);
  next_plan().preempted.push_back(sequence);
}

// Nothing runs and nothing can. Nobody admitted can come here by itself, for each fits the pool
// alone; but a server that waits for ever would be worse than an error.
void Scheduler::FailOldest() {
  Sequence* oldest = nullptr;
  const auto consider = [&oldest](Sequence* sequence) {
    if (oldest == nullptr || sequence->id() < oldest->id()) oldest = sequence;
  };
  for (Sequence* sequence : running_) consider(sequence);
  for (Sequence* sequence : waiting_.entries()) consider(sequence);
  if (oldest == nullptr) return;
  const absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("the KV pool cannot serve this generation now: it needs ", Outstanding(*oldest),
                   " more blocks; ", Supply(), " of ", pool_->total_blocks(), " can be had"));
  next_plan().failed.push_back({oldest, WithRetryAfter(status, kRetryAfter)});
}

}  // namespace luna::sched
