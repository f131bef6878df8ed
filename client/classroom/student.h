// One student of the class as a state machine: it hears what happened and tells its desk what to do
// next. It knows neither gRPC nor a clock, so a test plays a whole lesson in no time.
#ifndef LUNA_CLIENT_CLASSROOM_STUDENT_H_
#define LUNA_CLIENT_CLASSROOM_STUDENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/answer.h"
#include "client/classroom/plan.h"
#include "client/load/statistics.h"
#include "luna/v1/inference.pb.h"
#include "luna/v1/monitor.pb.h"
#include "luna/v1/session.pb.h"

namespace luna::classroom {

// What a student wants done. Every order but CancelAnswer and Note is answered by exactly one call
// of the student's function named with it; at most one is under way at a time.
class Desk {
 public:
  virtual ~Desk() = default;
  virtual void Wait(absl::Duration time) = 0;                  // OnTimer
  virtual void CreateSession(std::string_view label) = 0;      // OnSession
  virtual void Ask(const v1::GenerateRequest& request) = 0;    // OnEvent..., OnAnswerEnd
  virtual void CancelAnswer() = 0;                             // hastens OnAnswerEnd
  virtual void ResetSession(std::string_view session_id) = 0;  // OnReset
  virtual void ReadMemory(std::string_view session_id) = 0;    // OnMemory
  virtual void CloseSession(std::string_view session_id) = 0;  // OnClosed
  // Something the teacher may want to know, in words.
  virtual void Note(std::string_view text) = 0;
};

enum class State { kComing, kThinking, kWaiting, kWriting, kLeaving, kLeft, kDone, kFailed };

// One answer, whole or not.
struct TurnRecord {
  int turn = 0;  // 1-based, as the student counts
  std::string prompt;
  std::string text;
  v1::FinishReason reason = v1::FINISH_REASON_UNSPECIFIED;
  v1::Limit limit = v1::LIMIT_UNSPECIFIED;
  v1::Usage usage;
  uint64_t seed = 0;
  load::StreamTiming timing;
};

struct StudentRecord {
  std::string name;
  Manner manner = Manner::kOrdinary;
  std::vector<TurnRecord> turns;
  int restarts = 0;       // the session was full and was reset
  int full_contexts = 0;  // of these, because of the context; else of the quota or the pool
  int retries = 0;        // the server was full, and was asked again
  std::vector<std::string> errors;
  v1::SessionMemory memory;  // the last known
  uint64_t tokens = 0;       // received, over all turns
};

class Student {
 public:
  // `desk` outlives the student.
  Student(StudentPlan plan, const Options& options, Desk& desk);

  void Begin();
  // The class is over early: what is under way is cancelled, the session closed. To be called after
  // all waits were dropped: OnTimer does not come any more. What fails from here on is no error: a
  // server that goes at the same time has closed every session itself.
  void Stop();

  void OnTimer();
  void OnSession(const absl::StatusOr<v1::Session>& session);
  // How long the student takes to read it.
  absl::Duration OnEvent(const v1::GenerateEvent& event, absl::Time now);
  void OnAnswerEnd(const absl::Status& status);
  void OnReset(const absl::Status& status);
  void OnMemory(const absl::StatusOr<v1::SessionMemory>& memory);
  void OnClosed(const absl::Status& status);
  // When a request was sent.
  void OnAsked(absl::Time now) { current_.timing.Start(now); }

  // What a snapshot says about this student's session.
  void SeeMemory(const v1::SessionMemory& memory);

  State state() const { return state_; }
  bool gone() const;  // left, done or failed: nothing more will come
  const StudentPlan& plan() const { return plan_; }
  const std::string& session_id() const { return session_id_; }
  const StudentRecord& record() const { return record_; }
  // The answer that is being written, or the last one.
  const TurnRecord& current() const { return current_; }
  int turn() const { return turn_; }  // 0-based; plan().turns.size() after the last

 private:
  // What is done after the next OnTimer.
  enum class Next { kArrive, kAsk };

  void WaitThen(absl::Duration time, Next next);
  void Ask();
  std::string NextPrompt() const;
  void Restart(const absl::Status& why);
  // How long this student looks at a message.
  absl::Duration ReadingTime();
  // True if the refusal was one to try again after a while, and that is under way.
  bool TryAgain(const absl::Status& status, Next next);
  void FinishTurn();
  void Fail(const absl::Status& status);
  // Reads the session's memory, closes it, and ends as `end`.
  void Leave(State end);

  const StudentPlan plan_;
  const Options options_;
  Desk& desk_;

  State state_ = State::kComing;
  Next next_ = Next::kArrive;
  State end_ = State::kDone;
  bool waiting_ = false;  // for OnTimer
  bool stopping_ = false;
  bool walking_out_ = false;  // cancelled its own answer
  bool just_reset_ = false;
  bool cut_short_ = false;  // the story before was not at its end
  int turn_ = 0;
  int retries_in_a_row_ = 0;
  absl::Duration paused_;  // in the answer under way
  std::string session_id_;
  client::Answer answer_;
  absl::Status broken_;  // the stream itself was wrong
  TurnRecord current_;
  StudentRecord record_;
};

}  // namespace luna::classroom

#endif  // LUNA_CLIENT_CLASSROOM_STUDENT_H_
