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

// Of a step in flight their rows are superfluous.
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

// With nothing in flight anything can be decided, so that a step is planned with all that is known.
// Where the backend takes two, another one is launched before the first is waited for.
void Engine::Impl::RunStep() {
  if (num_flights_ == 0) {
    const sched::StepPlan& plan = scheduler_.Plan();
    for (const sched::StepPlan::Failure& failure : plan.failed) {
      EndWithError(*live_.at(failure.sequence->id()), failure.status);
    }
    Launch(plan);
  }
  if (MayLaunchAhead()) {
    if (const sched::StepPlan* next = scheduler_.PlanAhead(); next != nullptr) Launch(*next);
  }
  if (num_flights_ > 0) FinishOldest();
  if (num_flights_ > 0 && !flights_[0].launched.ok()) FinishOldest();
}

bool Engine::Impl::MayLaunchAhead() const {
  return num_flights_ == 1 && flights_[0].launched.ok() && backend_->depth() > 1;
}

void Engine::Impl::Launch(const sched::StepPlan& plan) {
  absl::Status status = CopyBlocks(plan.copies);
  if (plan.rows.empty()) return;
  NoteStart(plan);
  if (status.ok()) {
    sched::BuildBatch(plan, options_.layout, ++steps_, batch_);
    status = backend_->Launch(batch_);
  }
  flights_[num_flights_++] = {.plan = &plan, .begin = now_, .launched = std::move(status)};
}

// A copy may be for somebody who has no row in this step. One that fails is tried again before the
// next: until then no step is launched, so all blocks are as they were. One by one, for it must be
// known which of them were done: a block may be copied from, then to.
absl::Status Engine::Impl::CopyBlocks(std::span<const kv::BlockCopy> copies) {
  uncopied_.insert(uncopied_.end(), copies.begin(), copies.end());
  while (!uncopied_.empty()) {
    LUNA_RETURN_IF_ERROR(backend_->CopyBlocks({&uncopied_.front(), 1}));
    uncopied_.pop_front();
  }
  return absl::OkStatus();
}

void Engine::Impl::FinishOldest() {
  const Flight flight = std::exchange(flights_[0], std::move(flights_[1]));
  --num_flights_;
  const absl::Status status = flight.launched.ok() ? Collect(*flight.plan) : flight.launched;
  now_ = clock_->Now();
  NotePeaks(*flight.plan);
  if (status.ok()) {
    CountStep(*flight.plan, std::max(flight.begin, step_end_));
    Publish(scheduler_.Commit(result_));
  } else {
    FailStep(*flight.plan, status);
  }
  step_end_ = now_;
}

void Engine::Impl::Settle() {
  while (num_flights_ > 0) FinishOldest();
}

absl::Status Engine::Impl::Collect(const sched::StepPlan& plan) {
  LUNA_RETURN_IF_ERROR(backend_->Collect(result_));
  if (result_.samples.size() != static_cast<size_t>(plan.num_samples)) {
    return absl::InternalError(absl::StrCat("the backend gave ", result_.samples.size(),
                                            " tokens for ", plan.num_samples, " rows"));
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
  }
}

// At the end of the step, when it is known which of its rows are superfluous.
void Engine::Impl::NotePeaks(const sched::StepPlan& plan) {
  for (const sched::StepPlan::Row& row : plan.rows) {
    if (row.sequence == nullptr) continue;
    Generation& generation = *live_.at(row.sequence->id());
    generation.peak_blocks = std::max(generation.peak_blocks, row.held_blocks);
  }
}

// Everybody who was in it ends; their sessions keep their history, and the engine goes on.
void Engine::Impl::FailStep(const sched::StepPlan& plan, const absl::Status& status) {
  std::vector<SequenceId> numbers;
  for (const sched::StepPlan::Row& row : plan.rows) {
    if (row.sequence != nullptr) numbers.push_back(row.sequence->id());
  }
  scheduler_.Abandon();
  for (const SequenceId number : numbers) EndWithError(*live_.at(number), status);
}

void Engine::Impl::CountStep(const sched::StepPlan& plan, absl::Time begin) {
  int64_t prompt = 0;
  int64_t sampled = 0;
  for (const sched::StepPlan::Row& row : plan.rows) {
    if (row.sequence == nullptr) continue;
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
