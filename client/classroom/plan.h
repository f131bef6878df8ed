// Who does what when, decided before the class begins from the seed alone.
#ifndef LUNA_CLIENT_CLASSROOM_PLAN_H_
#define LUNA_CLIENT_CLASSROOM_PLAN_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/classroom/options.h"
#include "client/classroom/prompts.h"

namespace luna::classroom {

enum class Manner {
  kOrdinary,
  kLeaves,       // goes away in the middle of the last answer
  kPastes,       // the first turn is a long text
  kReadsSlowly,  // takes its time between messages, for a while
};

// "", "left in the middle", ...
std::string_view Describe(Manner manner);

struct TurnPlan {
  std::string text;          // a new story, or a question
  std::string continuation;  // instead, where the story before was cut short
  absl::Duration think;      // before it is asked
  uint64_t seed = 0;
};

struct StudentPlan {
  std::string name;
  Language language = Language::kKorean;
  Manner manner = Manner::kOrdinary;
  absl::Duration arrives;  // after the class began
  std::vector<TurnPlan> turns;
  float temperature = 0.8f;
  uint32_t leaves_after_tokens = 0;  // kLeaves: of the last answer
  absl::Duration read_pause;         // kReadsSlowly: after every message,
  absl::Duration read_pauses_limit;  // until the pauses of one answer add up to this
};

// `chat`: the model has a chat template, so students ask questions; else they begin stories.
// `long_texts` by Language: what the one who pastes pastes. Of a class of at least four, one
// pastes, one reads slowly and a tenth (at least one) leaves.
std::vector<StudentPlan> MakePlan(const Options& options, const Prompts& prompts, bool chat,
                                  const std::array<std::string, 2>& long_texts);

}  // namespace luna::classroom

#endif  // LUNA_CLIENT_CLASSROOM_PLAN_H_
