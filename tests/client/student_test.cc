// A whole lesson of one student, without a server and without time.
#include "client/classroom/student.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "tests/client/fake/fake_server.h"

namespace luna::classroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Writes down the orders.
class FakeDesk final : public Desk {
 public:
  void Wait(absl::Duration time) override {
    orders.push_back("wait");
    last_wait = time;
  }
  void CreateSession(std::string_view label) override {
    orders.push_back("create " + std::string(label));
  }
  void Ask(const v1::GenerateRequest& request) override {
    orders.push_back("ask " + request.text());
    last_request = request;
  }
  void CancelAnswer() override { orders.push_back("cancel"); }
  void ResetSession(std::string_view id) override { orders.push_back("reset " + std::string(id)); }
  void ReadMemory(std::string_view id) override { orders.push_back("memory " + std::string(id)); }
  void CloseSession(std::string_view id) override { orders.push_back("close " + std::string(id)); }
  void Note(std::string_view text) override { notes.emplace_back(text); }

  // What was ordered since the last call.
  std::vector<std::string> Take() { return std::exchange(orders, {}); }

  std::vector<std::string> orders;
  std::vector<std::string> notes;
  absl::Duration last_wait;
  v1::GenerateRequest last_request;
};

StudentPlan Plan(Manner manner = Manner::kOrdinary, int turns = 2) {
  StudentPlan plan;
  plan.name = "민준";
  plan.manner = manner;
  plan.leaves_after_tokens = 2;
  plan.read_pause = absl::Milliseconds(80);
  plan.read_pauses_limit = absl::Milliseconds(200);
  for (int i = 0; i < turns; ++i) {
    plan.turns.push_back({"opening", "go on", absl::Seconds(3), 7u + static_cast<uint64_t>(i)});
  }
  return plan;
}

class StudentTest : public testing::Test {
 protected:
  void Arrive(Student& student) {
    student.Begin();
    student.OnTimer();
    v1::Session session;
    session.set_id("s1");
    student.OnSession(session);
    student.OnTimer();
    desk_.Take();
  }

  // Accepted, `tokens` one by one, and the end.
  void Answer(Student& student, int tokens, v1::FinishReason reason = v1::FINISH_REASON_STOP) {
    Say(student, tokens);
    v1::GenerateEvent end = Next();
    end.mutable_finished()->set_reason(reason);
    student.OnEvent(end, now_);
    student.OnAnswerEnd(absl::OkStatus());
  }

  absl::Duration Say(Student& student, int tokens) {
    seq_ = 0;
    v1::GenerateEvent accepted = Next();
    accepted.mutable_accepted()->set_seed(7);
    student.OnEvent(accepted, now_);
    absl::Duration pause;
    for (int i = 0; i < tokens; ++i) {
      v1::GenerateEvent delta = Next();
      delta.mutable_delta()->set_text("말 ");
      delta.mutable_delta()->add_token_ids(5);
      now_ += absl::Milliseconds(10);
      pause = student.OnEvent(delta, now_);
    }
    return pause;
  }

  v1::GenerateEvent Next() {
    v1::GenerateEvent event;
    event.set_seq(seq_++);
    return event;
  }

  static absl::StatusOr<v1::SessionMemory> Memory(uint64_t peak) {
    v1::SessionMemory memory;
    memory.set_peak_bytes(peak);
    return memory;
  }

  Options options_;
  FakeDesk desk_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t seq_ = 0;
};

TEST_F(StudentTest, ArrivesAsksThinksAndLeaves) {
  Student student(Plan(), options_, desk_);
  student.Begin();
  EXPECT_THAT(desk_.Take(), ElementsAre("wait"));
  student.OnTimer();
  EXPECT_THAT(desk_.Take(), ElementsAre("create 민준"));
  v1::Session session;
  session.set_id("s1");
  student.OnSession(session);
  student.OnTimer();
  EXPECT_THAT(desk_.Take(), ElementsAre("wait", "ask opening"));
  EXPECT_EQ(desk_.last_request.sampling().seed(), 7u);
  EXPECT_EQ(desk_.last_request.session_id(), "s1");
  Answer(student, 3);
  EXPECT_EQ(desk_.last_wait, absl::Seconds(3));
  EXPECT_EQ(student.state(), State::kThinking);
  student.OnTimer();
  EXPECT_THAT(desk_.Take(), ElementsAre("wait", "ask opening"));
  Answer(student, 4);
  student.OnMemory(Memory(4096));
  EXPECT_THAT(desk_.Take(), ElementsAre("memory s1", "close s1"));
  student.OnClosed(absl::OkStatus());
  EXPECT_EQ(student.state(), State::kDone);
  EXPECT_EQ(student.record().tokens, 7u);
  EXPECT_EQ(student.record().memory.peak_bytes(), 4096u);
  ASSERT_EQ(student.record().turns.size(), 2u);
  EXPECT_EQ(student.record().turns[0].text, "말 말 말 ");
  EXPECT_THAT(student.record().errors, IsEmpty());
}

TEST_F(StudentTest, GoesOnWithAStoryThatWasCutShort) {
  Student student(Plan(), options_, desk_);
  Arrive(student);
  Answer(student, 3, v1::FINISH_REASON_LENGTH);
  student.OnTimer();
  EXPECT_THAT(desk_.Take(), ElementsAre("wait", "ask go on"));
}

TEST_F(StudentTest, StartsAnewWhenTheContextIsFullAndSaysSo) {
  Student student(Plan(), options_, desk_);
  Arrive(student);
  Answer(student, 3, v1::FINISH_REASON_LENGTH);
  student.OnTimer();
  desk_.Take();
  student.OnAnswerEnd(
      absl::OutOfRangeError("history and turn have 520 tokens; the context is 512"));
  EXPECT_THAT(desk_.Take(), ElementsAre("reset s1"));
  EXPECT_THAT(desk_.notes, ElementsAre(HasSubstr("민준 starts anew at turn 2")));
  student.OnReset(absl::OkStatus());
  EXPECT_THAT(desk_.Take(), ElementsAre("ask opening"));
  EXPECT_EQ(student.record().restarts, 1);
  EXPECT_EQ(student.record().full_contexts, 1);
  // Once is enough: a turn that does not fit an empty session never will.
  student.OnAnswerEnd(absl::OutOfRangeError("520"));
  EXPECT_THAT(desk_.Take(), ElementsAre("memory s1"));
  EXPECT_EQ(student.record().errors.size(), 1u);
}

TEST_F(StudentTest, AQuotaThatIsTooSmallIsNotAFullContext) {
  Student student(Plan(), options_, desk_);
  Arrive(student);
  Answer(student, 3);
  student.OnTimer();
  student.OnAnswerEnd(absl::FailedPreconditionError("the quota holds 3 blocks; the turn needs 4"));
  EXPECT_EQ(student.record().restarts, 1);
  EXPECT_EQ(student.record().full_contexts, 0);
}

TEST_F(StudentTest, AFirstTurnThatDoesNotFitIsAnError) {
  Student student(Plan(), options_, desk_);
  Arrive(student);
  student.OnAnswerEnd(absl::OutOfRangeError("prompt has 600 tokens; the context is 512"));
  EXPECT_THAT(desk_.Take(), ElementsAre("memory s1"));
  student.OnMemory(absl::NotFoundError("gone"));
  student.OnClosed(absl::OkStatus());
  EXPECT_EQ(student.state(), State::kFailed);
  EXPECT_THAT(student.record().errors, ElementsAre(HasSubstr("600")));
}

TEST_F(StudentTest, TriesAgainWhenTheServerSays) {
  Student student(Plan(), options_, desk_);
  Arrive(student);
  student.OnAnswerEnd(
      client::FromGrpc(fake::RetryLater("the queue is full", absl::Milliseconds(250))));
  EXPECT_THAT(desk_.Take(), ElementsAre("wait"));
  EXPECT_EQ(desk_.last_wait, absl::Milliseconds(250));
  student.OnTimer();
  EXPECT_THAT(desk_.Take(), ElementsAre("ask opening"));
  EXPECT_EQ(student.record().retries, 1);
  EXPECT_THAT(student.record().errors, IsEmpty());
}

TEST_F(StudentTest, WaitsForAPlaceInTheClass) {
  Student student(Plan(), options_, desk_);
  student.Begin();
  student.OnTimer();
  desk_.Take();
  student.OnSession(absl::ResourceExhaustedError("64 sessions of 64"));
  EXPECT_THAT(desk_.Take(), ElementsAre("wait"));
  student.OnTimer();
  EXPECT_THAT(desk_.Take(), ElementsAre("create 민준"));
}

TEST_F(StudentTest, LeavesInTheMiddleOfTheLastAnswer) {
  Student student(Plan(Manner::kLeaves, 1), options_, desk_);
  Arrive(student);
  Say(student, 2);
  EXPECT_THAT(desk_.Take(), ElementsAre("cancel"));
  student.OnAnswerEnd(absl::CancelledError("cancelled"));
  student.OnMemory(Memory(1));
  student.OnClosed(absl::OkStatus());
  EXPECT_EQ(student.state(), State::kLeft);
  EXPECT_EQ(student.record().turns.back().reason, v1::FINISH_REASON_CANCELLED);
  EXPECT_THAT(student.record().errors, IsEmpty());
}

TEST_F(StudentTest, ReadsSlowly) {
  Student slow(Plan(Manner::kReadsSlowly), options_, desk_);
  Arrive(slow);
  EXPECT_EQ(Say(slow, 1), absl::Milliseconds(80));
  Student quick(Plan(), options_, desk_);
  Arrive(quick);
  EXPECT_EQ(Say(quick, 1), absl::ZeroDuration());
}

TEST_F(StudentTest, TheSlowReaderDoesNotKeepTheClassWaiting) {
  Student slow(Plan(Manner::kReadsSlowly), options_, desk_);
  Arrive(slow);
  EXPECT_EQ(Say(slow, 3), absl::Milliseconds(40));  // what is left of the answer's 200
  Student other(Plan(Manner::kReadsSlowly), options_, desk_);
  Arrive(other);
  Answer(other, 4);
  other.OnTimer();
  EXPECT_EQ(Say(other, 1), absl::Milliseconds(80));  // every answer anew
}

TEST_F(StudentTest, AnErrorEventFailsTheTurn) {
  Student student(Plan(), options_, desk_);
  Arrive(student);
  Say(student, 1);
  v1::GenerateEvent event = Next();
  event.mutable_error()->set_code(13);
  event.mutable_error()->set_message("a kernel failed");
  student.OnEvent(event, now_);
  EXPECT_THAT(desk_.Take(), ElementsAre("cancel"));
  student.OnAnswerEnd(absl::OkStatus());
  EXPECT_THAT(student.record().errors, ElementsAre(HasSubstr("a kernel failed")));
}

TEST_F(StudentTest, StopWhileThinkingClosesTheSession) {
  Student student(Plan(), options_, desk_);
  Arrive(student);
  Answer(student, 1);
  desk_.Take();
  student.Stop();
  student.OnMemory(Memory(1));
  student.OnClosed(absl::OkStatus());
  EXPECT_THAT(desk_.Take(), ElementsAre("memory s1", "close s1"));
  EXPECT_TRUE(student.gone());
}

TEST_F(StudentTest, AServerThatStopsTooIsNoError) {
  Student student(Plan(), options_, desk_);
  Arrive(student);
  Answer(student, 1);
  student.Stop();
  student.OnMemory(absl::UnavailableError("connection refused"));
  student.OnClosed(absl::UnavailableError("connection refused"));
  EXPECT_EQ(student.state(), State::kLeft);
  EXPECT_THAT(student.record().errors, IsEmpty());
}

TEST_F(StudentTest, StopBeforeArrivingNeedsNoServer) {
  Student student(Plan(), options_, desk_);
  student.Begin();
  desk_.Take();
  student.Stop();
  EXPECT_TRUE(student.gone());
  EXPECT_THAT(desk_.Take(), IsEmpty());
}

TEST_F(StudentTest, StopDuringAnAnswerCancelsIt) {
  Student student(Plan(), options_, desk_);
  Arrive(student);
  Say(student, 1);
  student.Stop();
  EXPECT_THAT(desk_.Take(), ElementsAre("cancel"));
  student.OnAnswerEnd(absl::CancelledError("cancelled"));
  EXPECT_THAT(desk_.Take(), ElementsAre("memory s1"));
  EXPECT_THAT(student.record().errors, IsEmpty());
}

}  // namespace
}  // namespace luna::classroom
