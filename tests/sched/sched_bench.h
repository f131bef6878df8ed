// Sequences and a scheduler without an engine: plans are looked at, tokens are given by hand.
#ifndef LUNA_TESTS_SCHED_SCHED_BENCH_H_
#define LUNA_TESTS_SCHED_SCHED_BENCH_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/sched/scheduler.h"
#include "tests/fakes/fake_tokenizer.h"

namespace luna::sched {

class SchedBench {
 public:
  explicit SchedBench(int num_blocks, SchedulerOptions options = {}, std::vector<int> windows = {0})
      : layout(kv::MakeLayout(windows, 4, 16)),
        pool(num_blocks),
        scheduler(options, &layout, &pool) {}

  ~SchedBench() {
    for (auto& life : lives_) {
      if (life->alive) scheduler.Remove(&life->sequence);
      scheduler.RemoveCache(&life->cache);
    }
  }

  // A sequence in a session of its own; it is enqueued.
  Sequence* Add(int prompt_tokens, int64_t max_tokens, int priority = 0, uint64_t caller = 0,
                int64_t min_tokens = 0) {
    lives_.push_back(std::make_unique<Life>(
        this, SpecOf(prompt_tokens, max_tokens, priority, caller, min_tokens)));
    Life& life = *lives_.back();
    scheduler.AddCache(&life.cache);
    scheduler.Enqueue(&life.sequence);
    return &life.sequence;
  }

  // Plans and commits one step in which everybody says 'x'; returns the plan in words.
  std::string Step() {
    std::string words = Launch();
    Commit();
    return words;
  }

  // Plans a step, which is in flight then if it has rows; returns it in words.
  std::string Launch() {
    const StepPlan& plan = scheduler.Plan();
    if (!plan.rows.empty()) flights.push_back(&plan);
    return plan.ToString();
  }
  // The same of the next one, whose tokens are not known; "" if that cannot be.
  std::string LaunchAhead() {
    const StepPlan* plan = scheduler.PlanAhead();
    if (plan == nullptr) return "";
    flights.push_back(plan);
    return plan->ToString();
  }
  // Commits the oldest step in flight, if there is one, in which everybody says `token`; kStopId
  // ends an answer.
  static constexpr TokenId kStopId = '.';
  void Commit(TokenId token = 'x') {
    batch::StepResult result;
    if (!flights.empty()) {
      result.samples.assign(flights.front()->num_samples,
                            {.status = {}, .token = token, .logprob = 0, .top = {}});
      flights.erase(flights.begin());
    }
    for (const Outcome& outcome : scheduler.Commit(result)) {
      if (outcome.ending.ended()) Forget(outcome.sequence);
    }
  }
  // Its caller has gone.
  void Remove(Sequence* sequence) {
    scheduler.Remove(sequence);
    Forget(sequence);
  }

  // The scheduler is done with it.
  void Forget(const Sequence* sequence) {
    for (auto& life : lives_) {
      if (&life->sequence == sequence) life->alive = false;
    }
  }

  const kv::KvLayout layout;
  kv::BlockPool pool;
  fakes::FakeTokenizer tokenizer;
  Scheduler scheduler;
  std::vector<const StepPlan*> flights;  // oldest first

 private:
  struct Life {
    Life(SchedBench* bench, SequenceSpec spec)
        : cache(SessionId(spec.id.value()), &bench->layout, &bench->pool, 1'000'000),
          sequence(std::move(spec), &cache, &bench->tokenizer) {}

    SessionCache cache;
    Sequence sequence;
    bool alive = true;
  };

  SequenceSpec SpecOf(int prompt_tokens, int64_t max_tokens, int priority, uint64_t caller,
                      int64_t min_tokens) const {
    SequenceSpec spec;
    spec.id = SequenceId(lives_.size() + 1);
    spec.caller = caller;
    spec.priority = priority;
    spec.prompt.assign(prompt_tokens, 'p');
    spec.stopping.max_tokens = max_tokens;
    spec.stopping.min_tokens = min_tokens;
    spec.stopping.stop_ids = {kStopId};
    return spec;
  }

  std::vector<std::unique_ptr<Life>> lives_;
};

}  // namespace luna::sched

#endif  // LUNA_TESTS_SCHED_SCHED_BENCH_H_
