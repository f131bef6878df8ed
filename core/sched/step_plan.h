// What one tick will do, decided before anything is computed.
#ifndef LUNA_CORE_SCHED_STEP_PLAN_H_
#define LUNA_CORE_SCHED_STEP_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/sched/sequence.h"

namespace luna::sched {

// Made by the scheduler, reused from tick to tick; valid while its step is in flight, and then
// until the next plan is made.
struct StepPlan {
  // Computes tokens [first, first + num_tokens) of its sequence.
  struct Row {
    Sequence* sequence = nullptr;  // null once it is superfluous: its sequence has left the batch
    int first = 0;
    int num_tokens = 0;
    bool samples = false;  // all its tokens are computed then: a new one is chosen
    // Not -1: its one token is not known yet, it is that sample of the step before.
    int pending = -1;
    int64_t held_blocks = 0;  // by its session, these tokens' included
  };
  struct Failure {
    Sequence* sequence = nullptr;
    absl::Status status;
  };

  std::vector<kv::BlockCopy> copies;  // before the step, one after the other
  std::vector<Row> rows;              // decodes first
  int num_samples = 0;                // rows that sample, in their order
  std::vector<Sequence*> preempted;   // back in line, their blocks to be had
  std::vector<Failure> failed;        // to be ended by the engine

  int num_tokens() const;
  void Clear();
  // "5[40] 6[9]~ 7[0,512) 9[512,700)+ preempted 3": id and positions, ~ where the token is not
  // known yet, + where a chunk is the prompt's last. A superfluous row has no id: "-[40]".
  std::string ToString() const;
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_STEP_PLAN_H_
