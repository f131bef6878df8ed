// One step of the batch, and what it brought.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/engine_impl.h"
#include "core/sched/batch_builder.h"

namespace luna::engine {
namespace {

constexpr double kStepWeight = 1.0 / 16;  // of the newest step in the moving average

}  // namespace

void Engine::Impl::EndCancelledAndLate() {
  // End() erases the entry it is given, so the next one is looked up before.
  for (auto it = live_.begin(); it != live_.end();) {
    Generation& generation = *(it++)->second;
    if (generation.stream->cancel_requested()) {
      End(generation, {.reason = FinishReason::kCancelled}, Turn::kDiscard);
    } else if (generation.deadline <= now_) {
      End(generation, {.reason = FinishReason::kDeadline}, Turn::kDiscard);
    }
  }
}

void Engine::Impl::RunStep() {
  const sched::StepPlan& plan = scheduler_.Plan();
  for (const sched::StepPlan::Failure& failure : plan.failed) {
    EndWithError(*live_.at(failure.sequence->id()), failure.status);
  }
  const absl::Time begin = now_;
  absl::Status status = plan.copies.empty() ? absl::OkStatus() : backend_->CopyBlocks(plan.copies);
  if (plan.rows.empty()) return;
  NoteStart(plan);
  if (status.ok()) status = Compute(plan);
  now_ = clock_->Now();
  if (!status.ok()) return FailStep(plan, status);
  CountStep(plan, begin);
  Publish(scheduler_.Commit(result_));
}

absl::Status Engine::Impl::Compute(const sched::StepPlan& plan) {
  sched::BuildBatch(plan, options_.layout, tick_, batch_);
  LUNA_RETURN_IF_ERROR(backend_->Launch(batch_));
  LUNA_RETURN_IF_ERROR(backend_->Collect(result_));
  if (result_.samples.size() != batch_.samples.size()) {
    return absl::InternalError(absl::StrCat("the backend gave ", result_.samples.size(),
                                            " tokens for ", batch_.samples.size(), " rows"));
  }
  const int vocab_size = backend_->info().vocab_size;
  for (sample::SampledToken& sampled : result_.samples) {
    if (!sampled.status.ok() || (sampled.token >= 0 && sampled.token < vocab_size)) continue;
    sampled.status = absl::InternalError(absl::StrCat("the backend chose token ", sampled.token,
                                                      " of a vocabulary of ", vocab_size));
  }
  return absl::OkStatus();
}

void Engine::Impl::NoteStart(const sched::StepPlan& plan) {
  for (const sched::StepPlan::Row& row : plan.rows) {
    Generation& generation = *live_.at(row.sequence->id());
    generation.first_step = std::min(generation.first_step, now_);
    generation.peak_blocks =
        std::max(generation.peak_blocks, row.sequence->cache().pool.held_blocks());
  }
}

// Everybody who was in it ends; their sessions keep their history, and the engine goes on.
void Engine::Impl::FailStep(const sched::StepPlan& plan, const absl::Status& status) {
  std::vector<SequenceId> numbers;
  for (const sched::StepPlan::Row& row : plan.rows) numbers.push_back(row.sequence->id());
  for (const SequenceId number : numbers) EndWithError(*live_.at(number), status);
}

void Engine::Impl::CountStep(const sched::StepPlan& plan, absl::Time begin) {
  int64_t prompt = 0;
  int64_t sampled = 0;
  for (const sched::StepPlan::Row& row : plan.rows) {
    sampled += row.samples ? 1 : 0;
    const bool is_decode = row.samples && row.num_tokens == 1 && row.sequence->output_tokens() > 0;
    prompt += is_decode ? 0 : row.num_tokens;
  }
  total_tokens_ += sampled;
  total_prompt_tokens_ += prompt;
  token_rate_.Add(sampled, now_);
  prompt_rate_.Add(prompt, now_);
  const double ms = absl::ToDoubleMilliseconds(now_ - begin);
  step_ms_ = step_ms_ == 0 ? ms : step_ms_ + kStepWeight * (ms - step_ms_);
}

void Engine::Impl::Publish(const std::vector<sched::Outcome>& outcomes) {
  for (const sched::Outcome& outcome : outcomes) {
    Generation& generation = *live_.at(outcome.sequence->id());
    if (outcome.sampled != nullptr) PublishToken(generation, outcome);
    if (outcome.ending.ended()) EndByItself(generation, outcome.ending);
  }
}

void Engine::Impl::PublishToken(Generation& generation, const sched::Outcome& outcome) {
  const sched::Sequence& sequence = *outcome.sequence;
  Session& session = *generation.session;
  if (sequence.output_tokens() == 1) {
    generation.first_token = session.answer_first = now_;
    generation.stream->PromptComputed(
        {.tokens = static_cast<uint32_t>(sequence.prompt_tokens()),
         .cached_tokens = static_cast<uint32_t>(sequence.schedule.cached_tokens)});
  }
  ++session.generated_tokens;
  ++session.answer_tokens;
  session.answer_last = now_;

  const TokenLogprobs* logprobs = nullptr;
  if (sequence.sampling().num_logprobs >= 0) {
    logprobs_.token = outcome.sampled->token;
    logprobs_.logprob = outcome.sampled->logprob;
    logprobs_.top = outcome.sampled->top;
    logprobs = &logprobs_;
  }
  generation.stream->Append(sequence.fresh_text(), outcome.sampled->token, logprobs);
  published_ = true;
}

}  // namespace luna::engine
