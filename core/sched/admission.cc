// Who may join the batch.
#include <algorithm>
#include <ranges>

#include "core/sched/scheduler.h"

namespace luna::sched {
namespace {

// A sequence that was preempted again and again comes back only when ever more of what is to come
// is paid for.
constexpr uint32_t kMostDoublings = 10;

int CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<int>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Whether the first `size` tokens are equal. From the last of them on: in a class with a lesson in
// common, the ends of texts differ.
bool BeginAlike(std::span<const TokenId> a, std::span<const TokenId> b, int size) {
  return std::ranges::equal(a.first(size) | std::views::reverse,
                            b.first(size) | std::views::reverse);
}

}  // namespace

// What `sequence` needs beyond what it holds, in order to compute all tokens it has, or that are
// coming, one by one: a larger chunk of a windowed model needs more, and is made only of what is
// spare.
int64_t Scheduler::Outstanding(const Sequence& sequence) const {
  const kv::SequenceKv& kv = sequence.cache().kv;
  const int64_t needed = layout_->BlocksForTokens(sequence.expected_tokens(), 1) + kv.CopiesToPay();
  return std::max<int64_t>(0, needed - kv.paid_blocks());
}

// Of that, what its guarantee does not pay for.
int64_t Scheduler::Claim(const Sequence& sequence) const {
  return std::max<int64_t>(0, Outstanding(sequence) - sequence.cache().pool.unused_guarantee());
}

int64_t Scheduler::Claims() const {
  int64_t sum = 0;
  for (const Sequence* sequence : running_) sum += Claim(*sequence);
  return sum;
}

// The blocks it will need next, if it still grows: one step of growth for each is left free at
// admission, so that who comes in does not push somebody out right away.
int64_t Scheduler::Growth(const Sequence& sequence) const {
  const uint32_t doublings =
      sequence.schedule.running ? 0 : std::min(sequence.schedule.preemptions, kMostDoublings);
  const int64_t now = sequence.expected_tokens();
  const int64_t soon = std::min<int64_t>(now + (int64_t{layout_->block_tokens} << doublings),
                                         sequence.final_computed_tokens());
  return std::max<int64_t>(0, layout_->BlocksForTokens(soon, 1) - layout_->BlocksForTokens(now, 1));
}

int64_t Scheduler::DemandWith(const Sequence& sequence) const {
  int64_t demand = Claims() + Claim(sequence);
  if (!running_.empty()) {
    demand += Growth(sequence) + sequence.cache().kv.PaidByAnother();
    for (const Sequence* other : running_) demand += Growth(*other);
  }
  return demand;
}

bool Scheduler::Fits(const Sequence& sequence) const {
  // Its own cache is no supply to it.
  return DemandWith(sequence) <= Supply() - sequence.cache().kv.unprotected_blocks();
}

// Whether somebody in the batch is about to compute at least one of its next blocks: then it waits
// for that, and those behind it pass.
bool Scheduler::IsBeingComputed(const Sequence& sequence) const {
  const kv::SequenceKv& kv = sequence.cache().kv;
  for (const Sequence* other : running_) {
    if (other->remaining_tokens() <= 1 || !kv.SameScope(other->cache().kv)) continue;
    const int alike =
        std::max(other->schedule.launched_tokens + 1, kv.computed_tokens() + layout_->block_tokens);
    if (alike < sequence.num_tokens() && alike <= other->num_tokens() &&
        BeginAlike(sequence.tokens(), other->tokens(), alike)) {
      return true;
    }
  }
  return false;
}

// The beginning of its next block, from a running sequence that has more in common with it.
void Scheduler::CopyBeginning(Sequence* sequence) {
  SessionCache& cache = sequence->cache();
  const int computed = cache.kv.computed_tokens();
  if (layout_->windowed() || computed % layout_->block_tokens != 0) return;
  const int most = std::min(computed + layout_->block_tokens, sequence->num_tokens() - 1);
  const Sequence* source = nullptr;
  int common = computed;
  for (const Sequence* other : running_) {
    if (!cache.kv.SameScope(other->cache().kv)) continue;
    const int there = std::min(most, other->cache().kv.computed_tokens());
    if (there <= common) continue;
    const int alike = std::min(there, CommonPrefix(sequence->tokens(), other->tokens()));
    if (alike > common) source = other, common = alike;
  }
  if (source == nullptr) return;
  idle_.MakeAvailable(layout_->num_groups());
  cache.CopyPartOf(source->cache(), common, copies_);
}

// Whether all it needs so far is guaranteed to it and takes nothing of what others wait for.
bool Scheduler::IsGuaranteed(const Sequence& sequence) const {
  const SessionCache& cache = sequence.cache();
  return cache.kv.held_blocks() + Outstanding(sequence) <= cache.pool.guaranteed_blocks() &&
         Claim(sequence) == 0 && cache.kv.unprotected_blocks() == 0 &&
         cache.kv.PaidByAnother() == 0;
}

// Calls take(sequence) for those who can come in, until it returns false. In line: who is small
// does not overtake who is large, or the large one would starve. But what is guaranteed to somebody
// is no use to those before it.
template <typename Take>
void Scheduler::ForThoseWhoFit(Take take) {
  if (waiting_.empty() || static_cast<int>(running_.size()) >= options_.max_running) return;
  WaitingQueue::Line line = waiting_.InOrder(shares_);
  bool blocked = false;  // by somebody who does not fit
  while (static_cast<int>(running_.size()) < options_.max_running) {
    Sequence* sequence = line.Next();
    if (sequence == nullptr) break;
    if (blocked && sequence->cache().pool.guaranteed_blocks() == 0) continue;
    sequence->cache().Adopt(sequence->tokens());
    if (IsBeingComputed(*sequence)) continue;
    if (blocked ? IsGuaranteed(*sequence) : Fits(*sequence)) {
      if (!take(sequence)) break;
    } else if (pool_->reserved_blocks() == 0) {
      break;
    } else {
      blocked = true;
    }
  }
}

void Scheduler::Admit() {
  const size_t before = running_.size();
  ForThoseWhoFit([this](Sequence* sequence) {
    Join(sequence);
    return true;
  });
  for (size_t i = before; i < running_.size(); ++i) waiting_.Remove(running_[i]);
}

void Scheduler::Join(Sequence* sequence) {
  idle_.Remove(&sequence->cache());
  CopyBeginning(sequence);
  sequence->cache().kv.SetRunning(true);
  Sequence::Schedule& schedule = sequence->schedule;
  schedule.running = true;
  schedule.gave_way = false;
  schedule.launched_tokens = sequence->cache().kv.computed_tokens();
  if (!schedule.was_admitted) {
    shares_.Serve(*sequence, sequence->tokens_to_charge());
    schedule.was_admitted = true;
    schedule.cached_tokens = schedule.launched_tokens;
    sequence->Reserve();
  }
  running_.push_back(sequence);
}

// Whether `sequence` would give its place up to `waiting`. A slice is a tick's budget of tokens:
// its caller has more places than the other's would have with one more and was not given a slice
// less, or it has more and was given a slice more; of one caller's sessions the slice alone counts.
// So nobody gives a place up to whom it could claim it back from. A slice was given when there is a
// token to show for it: a long prompt counts as given when it comes in.
bool Scheduler::OwesTo(const Sequence& sequence, const Sequence& waiting) {
  if (sequence.schedule.preempted_since_token) return false;
  const uint64_t slice = static_cast<uint64_t>(options_.max_batch_tokens);
  const bool has_spoken = sequence.output_tokens() > 0;
  if (sequence.caller() == waiting.caller()) {
    return has_spoken && sequence.priority() <= waiting.priority() &&
           sequence.cache().served_tokens > waiting.cache().served_tokens + slice;
  }
  const int places = places_[sequence.caller()], others = places_[waiting.caller()];
  const uint64_t served = shares_.served(sequence.caller());
  const uint64_t others_served = shares_.served(waiting.caller());
  return (places > others + 1 && served + slice >= others_served) ||
         (has_spoken && places > others && served > others_served + slice);
}

// What the others may have of it when it leaves the batch: nothing that is guaranteed.
int64_t Scheduler::WouldFree(const Sequence& sequence) const {
  return Claim(sequence) + sequence.cache().kv.FreedByStopping();
}

// Of those who owe their place, the newest of the caller with the most. Where only blocks are
// lacking, one that has some to free.
Sequence* Scheduler::MostOwing(const Sequence& waiting, bool for_its_place) {
  Sequence* most = nullptr;
  for (Sequence* sequence : running_) {
    if (!OwesTo(*sequence, waiting) || std::ranges::find(owing_, sequence) != owing_.end())
      continue;
    const bool is_guaranteed = sequence->cache().pool.guaranteed_blocks() > 0;
    if (!for_its_place && is_guaranteed && WouldFree(*sequence) <= 0) continue;
    if (most == nullptr || places_[sequence->caller()] > places_[most->caller()] ||
        (places_[sequence->caller()] == places_[most->caller()] && sequence->id() > most->id())) {
      most = sequence;
    }
  }
  return most;
}

// Gathers whose places and blocks suffice for `waiting`; false if what all owe does not.
bool Scheduler::GatherOwing(const Sequence& waiting) {
  owing_.clear();
  int64_t lacking = DemandWith(waiting) - (Supply() - waiting.cache().kv.unprotected_blocks());
  size_t places = running_.size();
  const auto full = [&] { return static_cast<int>(places) >= options_.max_running; };
  while (lacking > 0 || full()) {
    Sequence* sequence = MostOwing(waiting, /*for_its_place=*/full());
    if (sequence == nullptr) return false;
    owing_.push_back(sequence);
    --places_[sequence->caller()];
    --places;
    lacking -= WouldFree(*sequence) + Growth(*sequence);
  }
  return true;
}

// Who is first in line, if others owe it their places: those are gathered then. Null if not.
Sequence* Scheduler::FirstOwed() {
  if (waiting_.empty()) return nullptr;
  places_.clear();
  for (const Sequence* sequence : running_) ++places_[sequence->caller()];
  WaitingQueue::Line line = waiting_.InOrder(shares_);
  Sequence* first = line.Next();
  for (; first != nullptr; first = line.Next()) {
    first->cache().Adopt(first->tokens());
    if (!IsBeingComputed(*first)) break;
  }
  if (first == nullptr || !GatherOwing(*first)) return nullptr;
  return owing_.empty() ? nullptr : first;  // if nobody has to leave, it comes in by itself
}

// A caller may fill batch and pool while it is alone, and a session a place while no other waits;
// as soon as one does that was given less, the newest give way. They stand in line again and lose
// nothing.
void Scheduler::ShareOut() {
  while (Sequence* first = FirstOwed()) {
    for (Sequence* sequence : owing_) {
      sequence->schedule.gave_way = true;
      Preempt(sequence);
    }
    waiting_.Remove(first);
    Join(first);
  }
}

// As of what is committed: what the step in flight will have given to somebody counts one step
// late.
bool Scheduler::SomebodyCouldJoin() {
  bool any = false;
  ForThoseWhoFit([&any](const Sequence*) {
    any = true;
    return false;
  });
  return any || FirstOwed() != nullptr;
}

}  // namespace luna::sched
