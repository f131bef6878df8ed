// Sequences and a scheduler without an engine: plans are looked at, tokens are given by hand.
#ifndef LUNA_TESTS_SCHED_SCHED_BENCH_H_
#define LUNA_TESTS_SCHED_SCHED_BENCH_H_

#include <memory>
#include <string>
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
  Sequence* Add(int prompt_tokens, int64_t max_tokens, int priority = 0, uint64_t caller = 0) {
    lives_.push_back(std::make_unique<Life>(this, prompt_tokens, max_tokens, priority, caller));
    Life& life = *lives_.back();
    scheduler.AddCache(&life.cache);
    scheduler.Enqueue(&life.sequence);
    return &life.sequence;
  }

  // Plans and commits one step in which everybody says 'x'; returns the plan in words.
  std::string Step() {
    const StepPlan& plan = scheduler.Plan();
    const std::string words = plan.ToString();
    batch::StepResult result;
    for (const StepPlan::Row& row : plan.rows) {
      if (row.samples)
        result.samples.push_back({.status = {}, .token = 'x', .logprob = 0, .top = {}});
    }
    for (const Outcome& outcome : scheduler.Commit(result)) {
      if (outcome.ending.ended()) Forget(outcome.sequence);
    }
    return words;
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

 private:
  struct Life {
    Life(SchedBench* bench, int prompt_tokens, int64_t max_tokens, int priority, uint64_t caller)
        : cache(SessionId(bench->lives_.size() + 1), &bench->layout, &bench->pool, 1'000'000),
          sequence(SpecOf(bench, prompt_tokens, max_tokens, priority, caller), &cache,
                   &bench->tokenizer) {}

    static SequenceSpec SpecOf(SchedBench* bench, int prompt_tokens, int64_t max_tokens,
                               int priority, uint64_t caller) {
      SequenceSpec spec;
      spec.id = SequenceId(bench->lives_.size() + 1);
      spec.caller = caller;
      spec.priority = priority;
      spec.prompt.assign(prompt_tokens, 'p');
      spec.stopping.max_tokens = max_tokens;
      return spec;
    }

    SessionCache cache;
    Sequence sequence;
    bool alive = true;
  };
  std::vector<std::unique_ptr<Life>> lives_;
};

}  // namespace luna::sched

#endif  // LUNA_TESTS_SCHED_SCHED_BENCH_H_
