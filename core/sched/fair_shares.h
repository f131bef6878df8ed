// Whose turn it is, by what everybody has been given so far.
#ifndef LUNA_CORE_SCHED_FAIR_SHARES_H_
#define LUNA_CORE_SCHED_FAIR_SHARES_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "core/sched/sequence.h"

namespace luna::sched {

// Counts tokens served, prompt and answer alike, for each caller, and within a caller for each of
// its sessions; whoever has been given least is next. A counter that comes back after a silence is
// lifted to the smallest of those that are active, so that silence earns nothing and costs nothing
// (virtual token counters: Y. Sheng et al., "Fairness in Serving Large Language Models", OSDI
// 2024). However many sessions a caller opens, its share is one caller's. Nothing is kept free for
// anybody. Engine thread only.
class FairShares {
 public:
  // From the time it stands in line until it has ended.
  void Enter(Sequence& sequence);
  void Leave(const Sequence& sequence);
  void Serve(Sequence& sequence, int tokens);

  uint64_t served(uint64_t caller) const { return callers_.at(caller).served; }
  // Whether `a` goes before `b`: the caller that was given less; of one caller the higher priority,
  // then the session that was given less; what came first.
  bool Before(const Sequence& a, const Sequence& b) const;

 private:
  struct Caller {
    uint64_t served = 0;
    absl::flat_hash_map<SequenceId, const Sequence*> active;
  };

  void ForgetTheSilent();

  // Those without an active sequence only as long as they have been given more than an active one.
  absl::flat_hash_map<uint64_t, Caller> callers_;
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_FAIR_SHARES_H_
