#include "client/classroom/student.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "core/base/absl_view.h"

namespace luna::classroom {
namespace {

// A server that names no time; and how often it is asked again.
constexpr absl::Duration kDefaultRetry = absl::Seconds(1);
constexpr int kMaxRetries = 100;

}  // namespace

Student::Student(StudentPlan plan, const Options& options, Desk& desk)
    : plan_(std::move(plan)), options_(options), desk_(desk) {
  record_.name = plan_.name;
  record_.manner = plan_.manner;
}

bool Student::gone() const {
  return state_ == State::kLeft || state_ == State::kDone || state_ == State::kFailed;
}

void Student::Begin() { WaitThen(plan_.arrives, Next::kArrive); }

void Student::WaitThen(absl::Duration time, Next next) {
  next_ = next;
  waiting_ = true;
  desk_.Wait(time);
}

void Student::OnTimer() {
  waiting_ = false;
  if (next_ == Next::kArrive) {
    desk_.CreateSession(plan_.name);
  } else {
    Ask();
  }
}

void Student::OnSession(const absl::StatusOr<v1::Session>& session) {
  if (!session.ok()) {
    if (!TryAgain(session.status(), Next::kArrive)) Fail(session.status());
    return;
  }
  session_id_ = session->id();
  retries_in_a_row_ = 0;
  if (stopping_) return Leave(State::kLeft);
  if (plan_.turns.empty()) return Leave(State::kDone);
  state_ = State::kThinking;
  WaitThen(plan_.turns.front().think, Next::kAsk);
}

std::string Student::NextPrompt() const {
  const TurnPlan& turn = plan_.turns[static_cast<size_t>(turn_)];
  return cut_short_ ? turn.continuation : turn.text;
}

void Student::Ask() {
  state_ = State::kWaiting;
  answer_ = client::Answer();
  broken_ = absl::OkStatus();
  paused_ = absl::ZeroDuration();
  current_ = TurnRecord();
  current_.turn = turn_ + 1;
  current_.prompt = NextPrompt();
  v1::GenerateRequest request;
  request.set_session_id(session_id_);
  request.set_text(current_.prompt);
  request.mutable_sampling()->set_temperature(plan_.temperature);
  request.mutable_sampling()->set_top_p(options_.top_p);
  request.mutable_sampling()->set_seed(plan_.turns[static_cast<size_t>(turn_)].seed);
  request.mutable_stopping()->set_max_tokens(options_.max_tokens);
  desk_.Ask(request);
}

absl::Duration Student::OnEvent(const v1::GenerateEvent& event, absl::Time now) {
  if (broken_.ok()) broken_ = answer_.Add(event);
  if (!broken_.ok()) {
    desk_.CancelAnswer();
    return absl::ZeroDuration();
  }
  if (!event.has_delta()) return absl::ZeroDuration();
  const uint32_t tokens = static_cast<uint32_t>(event.delta().token_ids_size());
  if (tokens > 0) current_.timing.Arrive(now, tokens);
  record_.tokens += tokens;
  current_.text = answer_.text;
  state_ = State::kWriting;
  const bool last_turn = turn_ + 1 == static_cast<int>(plan_.turns.size());
  if (plan_.manner == Manner::kLeaves && last_turn && !walking_out_ &&
      current_.timing.tokens() >= plan_.leaves_after_tokens) {
    walking_out_ = true;
    desk_.CancelAnswer();
  }
  return ReadingTime();
}

absl::Duration Student::ReadingTime() {
  if (plan_.manner != Manner::kReadsSlowly || stopping_) return absl::ZeroDuration();
  const absl::Duration pause = std::min(plan_.read_pause, plan_.read_pauses_limit - paused_);
  paused_ += pause;
  return pause;
}

void Student::OnAnswerEnd(const absl::Status& status) {
  current_.seed = answer_.accepted.seed();
  if (answer_.has_finished) return FinishTurn();
  if (walking_out_ || stopping_) {
    current_.reason = v1::FINISH_REASON_CANCELLED;
    if (answer_.has_accepted) record_.turns.push_back(current_);
    if (walking_out_) desk_.Note(absl::StrCat(plan_.name, " left in the middle of an answer"));
    return Leave(State::kLeft);
  }
  if (!broken_.ok()) return Fail(broken_);
  if (status.ok()) return Fail(absl::DataLossError("the stream ended without a finish"));
  if (TryAgain(status, Next::kAsk)) return;
  // The session is full: of the context, or of what the quota or the pool can ever hold.
  const bool full = absl::IsOutOfRange(status) || absl::IsFailedPrecondition(status);
  const bool has_history = !record_.turns.empty() && !just_reset_;
  if (full && has_history && !answer_.has_accepted) return Restart(status);
  Fail(status);
}

void Student::FinishTurn() {
  const v1::Finished& finished = answer_.finished;
  current_.reason = finished.reason();
  current_.limit = finished.limit();
  current_.usage = finished.usage();
  record_.turns.push_back(current_);
  retries_in_a_row_ = 0;
  just_reset_ = false;
  cut_short_ = finished.reason() == v1::FINISH_REASON_LENGTH;
  if (finished.reason() == v1::FINISH_REASON_ERROR) {
    record_.errors.push_back(absl::StrCat("turn ", turn_ + 1, " ended by an error"));
  }
  ++turn_;
  if (stopping_ || walking_out_) return Leave(State::kLeft);
  if (turn_ == static_cast<int>(plan_.turns.size())) return Leave(State::kDone);
  state_ = State::kThinking;
  WaitThen(plan_.turns[static_cast<size_t>(turn_)].think, Next::kAsk);
}

void Student::Restart(const absl::Status& why) {
  ++record_.restarts;
  if (absl::IsOutOfRange(why)) ++record_.full_contexts;
  desk_.Note(absl::StrCat(plan_.name, " starts anew at turn ", turn_ + 1, ": ", why.message()));
  desk_.ResetSession(session_id_);
}

void Student::OnReset(const absl::Status& status) {
  if (!status.ok()) return Fail(status);
  just_reset_ = true;
  cut_short_ = false;
  if (stopping_) return Leave(State::kLeft);
  Ask();
}

bool Student::TryAgain(const absl::Status& status, Next next) {
  if (stopping_ || !absl::IsResourceExhausted(status)) return false;
  if (++retries_in_a_row_ > kMaxRetries) return false;
  const absl::Duration delay = client::RetryDelay(status).value_or(kDefaultRetry);
  ++record_.retries;
  state_ = State::kWaiting;
  desk_.Note(absl::StrCat(plan_.name, " tries again in ", absl::FormatDuration(delay), ": ",
                          status.message()));
  WaitThen(delay, next);
  return true;
}

void Student::Fail(const absl::Status& status) {
  if (stopping_) return Leave(State::kLeft);
  const std::string what = client::Describe(status);
  record_.errors.push_back(absl::StrCat("turn ", turn_ + 1, ": ", what));
  desk_.Note(absl::StrCat(plan_.name, " failed at turn ", turn_ + 1, ": ", what));
  if (answer_.has_accepted && !answer_.has_finished) {
    current_.reason = v1::FINISH_REASON_ERROR;
    record_.turns.push_back(current_);
  }
  Leave(State::kFailed);
}

void Student::Leave(State end) {
  end_ = end;
  if (session_id_.empty()) {
    state_ = end_;
    return;
  }
  state_ = State::kLeaving;
  desk_.ReadMemory(session_id_);
}

void Student::OnMemory(const absl::StatusOr<v1::SessionMemory>& memory) {
  if (memory.ok()) SeeMemory(*memory);
  desk_.CloseSession(session_id_);
}

void Student::OnClosed(const absl::Status& status) {
  if (!status.ok() && end_ != State::kFailed && !stopping_) {
    record_.errors.push_back(absl::StrCat("closing: ", client::Describe(status)));
    end_ = State::kFailed;
  }
  state_ = end_;
}

void Student::Stop() {
  if (gone() || stopping_) return;
  stopping_ = true;
  if (std::exchange(waiting_, false)) return Leave(State::kLeft);
  desk_.CancelAnswer();
}

void Student::SeeMemory(const v1::SessionMemory& memory) {
  const uint64_t peak = std::max(memory.peak_bytes(), record_.memory.peak_bytes());
  record_.memory = memory;
  record_.memory.set_peak_bytes(peak);
}

}  // namespace luna::classroom
