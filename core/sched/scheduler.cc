#include "core/sched/scheduler.h"

#include <algorithm>

#include "core/base/check.h"

namespace luna::sched {
namespace {

// Running sequences are at most half of a tick's budget, so that decodes, which always go, leave
// the other half to prompts.
int MaxRunning(const SchedulerOptions& options) {
  return std::max(1, std::min(options.max_running, options.max_batch_tokens / 2));
}

SchedulerOptions WithinBudget(SchedulerOptions options) {
  LUNA_CHECK(options.max_batch_tokens > 0 && options.max_running > 0);
  options.max_running = MaxRunning(options);
  return options;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, const kv::KvLayout* layout,
                     kv::BlockPool* pool)
    : options_(WithinBudget(options)), layout_(layout), pool_(pool), idle_(pool) {
  running_.reserve(options_.max_running);
  for (StepPlan& plan : plans_) plan.rows.reserve(options_.max_running);
  outcomes_.reserve(options_.max_running);
  prefills_.reserve(options_.max_running);
}

void Scheduler::Enqueue(Sequence* sequence) {
  LUNA_CHECK_LT(sequence->cache().kv.computed_tokens(), sequence->num_tokens());
  // It is about to be used: the others' caches go before its own.
  idle_.Remove(&sequence->cache());
  idle_.Add(&sequence->cache());
  sequence->schedule.hungry_since = ++hunger_;
  shares_.Enter(*sequence);
  waiting_.Push(sequence);
  Admit();
}

void Scheduler::Remove(Sequence* sequence) {
  if (sequence->schedule.running) {
    LeaveBatch(sequence);
  } else {
    waiting_.Remove(sequence);
  }
  shares_.Leave(*sequence);
  if (!options_.keep_kv) sequence->cache().kv.Truncate(0);
}

const StepPlan& Scheduler::Plan() {
  LUNA_CHECK_EQ(in_flight_, size_t{0});
  StepPlan& plan = next_plan();
  plan.Clear();
  // Idle caches may bring less than it seemed, where what they held is shared with those that come
  // in. Then somebody has to leave.
  size_t tries = running_.size() + 1;
  do {
    Balance();
    Admit();
    ShareOut();
    Balance();
    spare_ = Supply() - Claims();
    AllotDecodes();
    AllotPrefills();
  } while (plan.rows.empty() && --tries > 0);
  if (plan.rows.empty()) {
    FailOldest();
  } else {
    ++in_flight_;
  }
  std::swap(plan.copies, copies_);
  return plan;
}

const StepPlan& Scheduler::TakeOldest() {
  LUNA_CHECK(in_flight_ > 0);
  const StepPlan& plan = plans_[oldest_];
  oldest_ = (oldest_ + 1) % plans_.size();
  --in_flight_;
  return plan;
}

void Scheduler::Abandon() { TakeOldest(); }

const std::vector<Outcome>& Scheduler::Commit(const batch::StepResult& result) {
  outcomes_.clear();
  size_t next_sample = 0;
  if (in_flight_ > 0) {
    for (const StepPlan::Row& row : TakeOldest().rows) {
      const sample::SampledToken* sampled =
          row.samples ? &result.samples.at(next_sample++) : nullptr;
      if (row.sequence != nullptr) CommitRow(row, sampled);
    }
  }
  LUNA_CHECK_EQ(next_sample, result.samples.size());
  return outcomes_;
}

void Scheduler::CommitRow(const StepPlan::Row& row, const sample::SampledToken* sampled) {
  Sequence& sequence = *row.sequence;
  // What a faulty row computed is for nobody.
  if (sampled == nullptr || sampled->status.ok()) {
    sequence.cache().Advance(row.first + row.num_tokens, sequence.tokens());
  }
  if (sampled == nullptr) return;
  --sequence.schedule.coming_tokens;

  Outcome outcome{&sequence, nullptr, {}};
  if (sampled->status.ok()) {
    outcome.sampled = sampled;
    outcome.ending = sequence.Append(sampled->token);
    sequence.schedule.preempted_since_token = false;
    sequence.schedule.hungry_since = ++hunger_;
    shares_.Serve(sequence, 1);
  } else {
    outcome.ending = {Ending::Kind::kError, -1, sampled->status};
  }
  if (!options_.keep_kv) {
    sequence.cache().kv.Truncate(0);
    sequence.schedule.launched_tokens = 0;
  }
  if (outcome.ending.ended()) {
    LeaveBatch(&sequence);
    shares_.Leave(sequence);
  }
  outcomes_.push_back(std::move(outcome));
}

void Scheduler::LeaveBatch(Sequence* sequence) {
  DropRows(sequence);
  running_.erase(std::find(running_.begin(), running_.end(), sequence));
  sequence->schedule.running = false;
  idle_.Add(&sequence->cache());
}

void Scheduler::DropRows(Sequence* sequence) {
  bool any = false;
  for (size_t i = 0; i < in_flight_; ++i) {
    for (StepPlan::Row& row : plans_[(oldest_ + i) % plans_.size()].rows) {
      if (row.sequence != sequence) continue;
      row.sequence = nullptr;
      any = true;
    }
  }
  kv::SequenceKv& kv = sequence->cache().kv;
  if (any) kv.Truncate(kv.computed_tokens());
}

size_t Scheduler::QueuePosition(const Sequence* sequence) {
  return sequence->schedule.running ? 0 : waiting_.Position(sequence, shares_) + 1;
}

}  // namespace luna::sched
