#include "core/sched/step_plan.h"

#include "absl/strings/str_cat.h"

namespace luna::sched {

int StepPlan::num_tokens() const {
  int sum = 0;
  for (const Row& row : rows) sum += row.num_tokens;
  return sum;
}

void StepPlan::Clear() {
  copies.clear();
  rows.clear();
  num_samples = 0;
  preempted.clear();
  failed.clear();
}

std::string StepPlan::ToString() const {
  std::string text;
  const auto word = [&text](const auto&... parts) {
    absl::StrAppend(&text, text.empty() ? "" : " ", parts...);
  };
  for (const Row& row : rows) {
    const std::string id = row.sequence == nullptr ? "-" : absl::StrCat(row.sequence->id().value());
    if (row.num_tokens == 1 && row.samples) {
      word(id, "[", row.first, "]", row.pending >= 0 ? "~" : "");
    } else {
      word(id, "[", row.first, ",", row.first + row.num_tokens, ")", row.samples ? "+" : "");
    }
  }
  for (const Sequence* sequence : preempted) word("preempted ", sequence->id().value());
  for (const Failure& failure : failed) {
    word("failed ", failure.sequence->id().value(), " (", failure.status.message(), ")");
  }
  return text;
}

}  // namespace luna::sched
