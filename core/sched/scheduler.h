// Decides who computes what in each tick, and who holds which blocks.
#ifndef LUNA_CORE_SCHED_SCHEDULER_H_
#define LUNA_CORE_SCHED_SCHEDULER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/batch/batch.h"
#include "core/kv/block_pool.h"
#include "core/kv/layout.h"
#include "core/sched/fair_shares.h"
#include "core/sched/idle_caches.h"
#include "core/sched/sequence.h"
#include "core/sched/step_plan.h"
#include "core/sched/waiting_queue.h"

namespace luna::sched {

struct SchedulerOptions {
  int max_batch_tokens = 512;
  int max_running = 256;
  bool keep_kv = true;  // false: a token's whole text is computed again for the next one
};

// What a step brought for one sequence: a token, or the end, or both.
struct Outcome {
  Sequence* sequence = nullptr;
  const sample::SampledToken* sampled =
      nullptr;  // null if the row failed; valid until the next step
  Ending ending;
};

// The rule under everything: at the start of a step, every running sequence's next token is paid
// for. What it still needs to compute all tokens it has ("outstanding") is, summed over the running
// ones, at most what is free or held by caches that nobody computes into ("supply"). A sequence is
// admitted only if that stays true; if growth breaks it, the newest running one leaves until it is
// true again. So chunks and decodes never fail for want of a block, and no two sequences can wait
// for each other.
//
// Guarantees are paid for beforehand: what of them is not held is no supply, and a sequence needs
// from it only what its own does not cover.
//
// Whose turn it is to join is FairShares' matter; who has a place keeps it until somebody waits who
// was given less (OwesTo).
//
// A plan's step is in flight until it was committed or abandoned. While one is, a second can be
// planned as long as everybody only goes on (PlanAhead). Who leaves the batch makes its rows in
// flight superfluous: what they bring is nobody's, and the room for it is given back at once, since
// steps are done in their order.
//
// Knows blocks, tokens and order; nothing of models, streams or turns. Borrows layout, pool, caches
// and sequences. Engine thread only.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, const kv::KvLayout* layout, kv::BlockPool* pool);

  // A session begins and ends; its cache has no live sequence then.
  void AddCache(SessionCache* cache) { idle_.Add(cache); }
  void RemoveCache(SessionCache* cache) { idle_.Remove(cache); }

  // Stands in line, and is admitted at once if it can be. Its cache holds none of its tokens, or
  // fewer than all of them. BlocksForTokens of all it will ever compute fits the pool and its
  // quota.
  void Enqueue(Sequence* sequence);
  // Leaves line or batch; its cache is idle again.
  void Remove(Sequence* sequence);

  // The only place, with the next one, that takes blocks. Nothing is in flight; then the step of
  // this plan is, if it has rows.
  const StepPlan& Plan();
  // The step after the one that is in flight, whose tokens are not known yet. Null if something may
  // have to be decided first, or there is nothing to do: somebody could come in or is owed a place,
  // somebody has to leave, or nothing is cached.
  const StepPlan* PlanAhead();
  // The oldest step in flight was computed; `result` has one sample for each row that samples,
  // superfluous ones too, in order. Those that ended are out of the batch. Borrowed until the next
  // call. Without a step in flight there is nothing to commit.
  const std::vector<Outcome>& Commit(const batch::StepResult& result);
  // The oldest step in flight failed. Who is in it is to be removed; its plan stays until the next
  // one is made.
  void Abandon();

  const std::vector<Sequence*>& running() const { return running_; }
  const std::vector<Sequence*>& waiting() const { return waiting_.entries(); }
  bool HasRoomInLine(uint64_t caller, size_t count, size_t limit) const {
    return waiting_.HasRoom(caller, count, limit);
  }
  // Its place in line, from 1; 0 for one that was admitted.
  size_t QueuePosition(const Sequence* sequence);
  uint64_t preemptions() const { return preemptions_; }

 private:
  // ahead.cc
  bool HasRoomForDecodes();

  // admission.cc
  template <typename Take>
  void ForThoseWhoFit(Take take);
  void Admit();
  void Join(Sequence* sequence);
  void CopyBeginning(Sequence* sequence);
  Sequence* FirstOwed();
  void ShareOut();
  bool SomebodyCouldJoin();
  bool OwesTo(const Sequence& sequence, const Sequence& waiting);
  int64_t WouldFree(const Sequence& sequence) const;
  Sequence* MostOwing(const Sequence& waiting, bool for_its_place);
  bool GatherOwing(const Sequence& waiting);
  bool Fits(const Sequence& sequence) const;
  bool IsGuaranteed(const Sequence& sequence) const;
  bool IsBeingComputed(const Sequence& sequence) const;
  int64_t DemandWith(const Sequence& sequence) const;
  int64_t Outstanding(const Sequence& sequence) const;
  int64_t Claim(const Sequence& sequence) const;
  int64_t Claims() const;
  int64_t Growth(const Sequence& sequence) const;
  int64_t Supply() const { return pool_->surplus_blocks(); }

  // preemption.cc
  void Balance();
  Sequence* NewestPreemptible(bool again) const;
  void Preempt(Sequence* sequence);
  void FailOldest();

  // budget.cc
  // How far a row can go, which blocks it takes, and how many of them neither guarantee nor what is
  // outstanding pays for.
  struct Reach {
    int end = 0;
    int64_t missing = 0, unpaid = 0;
  };
  Reach ReachOf(const Sequence& sequence, int num_tokens, int64_t spare) const;
  void AllotDecodes();
  void AllotPrefills();
  void AddRow(Sequence* sequence, int num_tokens);

  StepPlan& next_plan() { return plans_[(oldest_ + in_flight_) % plans_.size()]; }
  const StepPlan& TakeOldest();
  void LeaveBatch(Sequence* sequence);
  void DropRows(Sequence* sequence);
  void CommitRow(const StepPlan::Row& row, const sample::SampledToken* sampled);

  const SchedulerOptions options_;
  const kv::KvLayout* const layout_;
  kv::BlockPool* const pool_;

  WaitingQueue waiting_;
  std::vector<Sequence*> running_;  // in the order of admission
  IdleCaches idle_;
  FairShares shares_;

  std::array<StepPlan, 2> plans_;  // of the steps in flight, from oldest_ on, then the next one
  size_t oldest_ = 0, in_flight_ = 0;
  std::vector<kv::BlockCopy> copies_;  // of the next plan
  std::vector<Outcome> outcomes_;
  struct Prefill {
    Sequence* sequence;
    int num_tokens;
  };
  std::vector<Prefill> prefills_;              // scratch of AllotPrefills
  absl::flat_hash_map<uint64_t, int> places_;  // scratch of ShareOut: in the batch, by caller
  std::vector<Sequence*> owing_;               // likewise
  int64_t spare_ = 0;                          // supply less what is claimed, while rows are made
  uint64_t hunger_ = 0;                        // counts submissions and tokens
  uint64_t preemptions_ = 0;
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_SCHEDULER_H_
