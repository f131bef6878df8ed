// What one tick will do, decided before anything is computed.
#ifndef LUNA_CORE_SCHED_STEP_PLAN_H_
#define LUNA_CORE_SCHED_STEP_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/sched/sequence.h"

namespace luna::sched {

// Made by the scheduler, reused from tick to tick; valid until the next Plan.
struct StepPlan {
  // Computes tokens [first, first + num_tokens) of its sequence.
  struct Row {
    Sequence* sequence = nullptr;
    int first = 0;
    int num_tokens = 0;
    bool samples = false;  // all its tokens are computed then: a new one is chosen
  };
  struct Failure {
    Sequence* sequence = nullptr;
    absl::Status status;
  };

  std::vector<kv::BlockCopy> copies;  // before the step, one after the other
  std::vector<Row> rows;              // decodes first
  std::vector<Sequence*> preempted;   // back in line, their blocks to be had
  std::vector<Failure> failed;        // to be ended by the engine

  int num_tokens() const;
  void Clear();
  // "5[40] 7[0,512) 9[512,700)+ preempted 3": id and positions, + where a chunk is the prompt's
  // last.
  std::string ToString() const;
};

}  // namespace luna::sched

#endif  // LUNA_CORE_SCHED_STEP_PLAN_H_
