// How a tick's tokens are shared out.
#include <algorithm>

#include "core/sched/scheduler.h"

namespace luna::sched {

// Everybody who only waits for its next token gets it in every tick.
void Scheduler::AllotDecodes() {
  for (Sequence* sequence : running_) {
    if (sequence->remaining_tokens() == 1) AddRow(sequence, 1);
  }
}

// Half of what the decodes leave goes to the prompt that has waited longest, so that none starves;
// the rest to those with the fewest tokens to go, so that a short question passes any number of
// long ones. Prompts of one length are simply served in the order in which they came.
void Scheduler::AllotPrefills() {
  prefills_.clear();
  for (Sequence* sequence : running_) {
    if (sequence->remaining_tokens() > 1) prefills_.push_back({sequence, 0});
  }
  if (prefills_.empty()) return;
  int budget = options_.max_batch_tokens - static_cast<int>(next_plan().rows.size());
  const auto allot = [&budget](Prefill& prefill, int at_most) {
    const int wanted = prefill.sequence->remaining_tokens() - prefill.num_tokens;
    const int tokens = std::min(wanted, at_most);
    prefill.num_tokens += tokens;
    budget -= tokens;
  };

  const auto hungrier = [](const Prefill& a, const Prefill& b) {
    return a.sequence->schedule.hungry_since < b.sequence->schedule.hungry_since;
  };
  allot(*std::min_element(prefills_.begin(), prefills_.end(), hungrier), (budget + 1) / 2);
  std::sort(prefills_.begin(), prefills_.end(), [&](const Prefill& a, const Prefill& b) {
    const int left_a = a.sequence->remaining_tokens() - a.num_tokens;
    const int left_b = b.sequence->remaining_tokens() - b.num_tokens;
    return left_a != left_b ? left_a < left_b : hungrier(a, b);
  });
  for (Prefill& prefill : prefills_) allot(prefill, budget);
  for (const Prefill& prefill : prefills_) {
    if (prefill.num_tokens > 0) AddRow(prefill.sequence, prefill.num_tokens);
  }
}

// A windowed model's chunk may need more than is spare, and is shortened then; one token always
// goes, since it is paid for.
Scheduler::Reach Scheduler::ReachOf(const Sequence& sequence, int num_tokens, int64_t spare) const {
  const kv::SequenceKv& kv = sequence.cache().kv;
  const int first = sequence.schedule.launched_tokens;
  const int64_t paid_for =
      std::max(Outstanding(sequence), sequence.cache().pool.unused_guarantee());
  const int64_t allowed = paid_for + std::max<int64_t>(0, spare);
  Reach reach;
  reach.end = static_cast<int>(std::min<int64_t>(first + num_tokens, kv.ReachWith(allowed)));
  if (reach.end <= first) return reach;
  reach.missing = kv.MissingBlocks(reach.end);
  const int64_t cost = reach.missing - kv.CopiesNeeded() + kv.CopiesToPay();
  reach.unpaid = std::max<int64_t>(0, cost - paid_for);
  return reach;
}

// Takes the blocks.
void Scheduler::AddRow(Sequence* sequence, int num_tokens) {
  Sequence::Schedule& schedule = sequence->schedule;
  const int first = schedule.launched_tokens;
  const Reach reach = ReachOf(*sequence, num_tokens, spare_);
  if (reach.end <= first) return;
  idle_.MakeAvailable(reach.missing);
  if (!sequence->cache().kv.Extend(reach.end, copies_)) return;
  spare_ -= reach.unpaid;

  StepPlan& plan = next_plan();
  const bool samples = reach.end == sequence->expected_tokens();
  plan.rows.push_back({.sequence = sequence,
                       .first = first,
                       .num_tokens = reach.end - first,
                       .samples = samples,
                       .pending = first < sequence->num_tokens() ? -1 : schedule.coming_sample,
                       .held_blocks = sequence->cache().pool.held_blocks()});
  schedule.launched_tokens = reach.end;
  if (!samples) return;
  ++schedule.coming_tokens;
  schedule.coming_sample = plan.num_samples++;
}

}  // namespace luna::sched
