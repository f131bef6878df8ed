// Classes and clients against a server without a model, in this process.
#include "client/classroom/classroom.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/client/fake/fake_server.h"

namespace luna::classroom {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class Notebook final : public Viewer {
 public:
  void Show(const Frame& frame) override { last = frame; }
  void Note(absl::Duration, std::string_view text) override { notes.emplace_back(text); }

  Frame last;
  std::vector<std::string> notes;
};

class ClassroomTest : public testing::Test {
 protected:
  ClassRecord Teach(fake::Behaviour behaviour) {
    server_.emplace(std::move(behaviour));
    options_.server = server_->address();
    options_.think_time = absl::ZeroDuration();
    options_.arrive_over = absl::ZeroDuration();
    const SystemClock clock;
    Classroom room(options_, BuiltInPrompts(), notebook_, clock);
    auto record = room.Run(absl::Milliseconds(100));
    EXPECT_TRUE(record.ok()) << record.status();
    return *record;
  }

  Options options_;
  Notebook notebook_;
  std::optional<fake::FakeServer> server_;
};

TEST_F(ClassroomTest, EverybodyGetsTheirAnswersAndNothingIsLeftBehind) {
  options_.students = 30;
  const ClassRecord record = Teach({});
  const Report report = Summarize(record);
  EXPECT_THAT(report.errors, IsEmpty());
  EXPECT_EQ(record.students.size(), 30u);
  EXPECT_EQ(report.answers, 60u);
  EXPECT_EQ(report.finish_reasons.at("stop") + report.finish_reasons.at("cancelled"), 60);
  EXPECT_EQ(server_->open_sessions(), 0);
  EXPECT_EQ(server_->seen().sessions_created, 30);
  EXPECT_EQ(record.pool.charged_blocks(), 0u);
  for (const auto& student : record.students) EXPECT_GT(student.memory.peak_bytes(), 0u);
  for (const Row& row : notebook_.last.rows) {
    EXPECT_TRUE(row.state == State::kDone || row.state == State::kLeft);
  }
}

TEST_F(ClassroomTest, TwoHundredStudentsOnOneThread) {
  options_.students = 200;
  options_.turns = 1;
  const Report report = Summarize(Teach({}));
  EXPECT_THAT(report.errors, IsEmpty());
  EXPECT_EQ(report.answers, 200u);
}

TEST_F(ClassroomTest, AFullContextIsStartedAnewAndToldSo) {
  options_.students = 1;
  options_.turns = 4;
  fake::Behaviour behaviour;
  behaviour.context_length = 40;
  behaviour.answer_tokens = 100;
  const ClassRecord record = Teach(behaviour);
  const Report report = Summarize(record);
  EXPECT_GE(report.restarts, 1);
  EXPECT_EQ(report.answers, 4u);
  EXPECT_THAT(report.errors, IsEmpty());
  EXPECT_THAT(notebook_.notes, Contains(HasSubstr("starts anew")));
  EXPECT_EQ(server_->seen().resets, report.restarts);
}

TEST_F(ClassroomTest, AServerThatIsFullIsAskedAgain) {
  options_.students = 3;
  fake::Behaviour behaviour;
  behaviour.refusals = {fake::RetryLater("the queue is full", absl::Milliseconds(1)),
                        fake::RetryLater("the queue is full", absl::Milliseconds(1))};
  behaviour.session_refusals = {fake::RetryLater("64 of 64 sessions", absl::Milliseconds(1))};
  const Report report = Summarize(Teach(behaviour));
  EXPECT_EQ(report.retries, 3);
  EXPECT_EQ(report.answers, 6u);
  EXPECT_THAT(report.errors, IsEmpty());
}

TEST_F(ClassroomTest, OneStudentsErrorIsTheirOwn) {
  options_.students = 3;
  fake::Behaviour behaviour;
  behaviour.refusals = {fake::BadRequest("sampling.temperature", "9000 is above 100")};
  const Report report = Summarize(Teach(behaviour));
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_THAT(report.errors[0], HasSubstr("sampling.temperature: 9000 is above 100"));
  EXPECT_EQ(report.answers, 4u);
  EXPECT_EQ(server_->open_sessions(), 0);
}

TEST_F(ClassroomTest, ChatModelsAreAskedQuestions) {
  options_.students = 2;
  fake::Behaviour behaviour;
  behaviour.chat = true;
  Teach(behaviour);
  for (const auto& request : server_->seen().generates) {
    std::vector<std::string> questions = BuiltInPrompts().In(Language::kKorean).questions;
    const auto& english = BuiltInPrompts().In(Language::kEnglish).questions;
    questions.insert(questions.end(), english.begin(), english.end());
    EXPECT_THAT(questions, Contains(request.text()));
    EXPECT_TRUE(request.sampling().has_seed());
  }
}

TEST(ClientTest, CancellationBeforeTheCallEndsItAtOnce) {
  fake::Behaviour behaviour;
  behaviour.endless = true;
  const fake::FakeServer server(behaviour);
  client::Client client(client::Connect({server.address()}));
  client::Cancellation cancellation;
  cancellation.Cancel();
  v1::GenerateRequest request;
  request.set_text("x");
  EXPECT_TRUE(absl::IsCancelled(client.Generate(request, nullptr, &cancellation).status()));
}

TEST(ClientTest, CancellationFromTheCallbackEndsTheStream) {
  fake::Behaviour behaviour;
  behaviour.endless = true;
  const fake::FakeServer server(behaviour);
  client::Client client(client::Connect({server.address()}));
  client::Cancellation cancellation;
  v1::GenerateRequest request;
  request.set_text("x");
  const auto answer = client.Generate(
      request,
      [&](const v1::GenerateEvent& event) {
        if (event.has_delta()) cancellation.Cancel();
      },
      &cancellation);
  EXPECT_TRUE(absl::IsCancelled(answer.status()));
}

TEST(ClientTest, WatchEndsWhenTheCallbackHasEnough) {
  const fake::FakeServer server;
  client::Client client(client::Connect({server.address()}));
  int snapshots = 0;
  EXPECT_TRUE(client
                  .WatchMemory(absl::Milliseconds(50),
                               [&](const v1::MemorySnapshot&) { return ++snapshots < 2; })
                  .ok());
  EXPECT_EQ(snapshots, 2);
}

TEST(ClientTest, SessionsRoundTrip) {
  const fake::FakeServer server;
  client::Client client(client::Connect({server.address()}));
  v1::CreateSessionRequest request;
  request.set_label("민준");
  const auto session = client.CreateSession(request);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(client.GetSession(session->id())->label(), "민준");
  EXPECT_EQ(client.ListSessions()->size(), 1u);
  EXPECT_TRUE(client.ResetSession(session->id()).ok());
  EXPECT_TRUE(client.CloseSession(session->id()).ok());
  EXPECT_TRUE(absl::IsNotFound(client.GetSession(session->id()).status()));
}

}  // namespace
}  // namespace luna::classroom
