// Servers that end, in order or not, and are started again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fakes/temp_dir.h"
#include "tests/integration/process.h"
#include "tests/integration/saving.h"
#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using Code = grpc::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kStudents = 8;

class RestartTest : public ::testing::Test {
 protected:
  std::string state() const { return directory_.path() + "/state"; }
  std::string EntryOf(const std::string& id) const { return state() + "/" + id + ".luna-session"; }

  void Start(std::vector<std::string> more = {}) {
    std::vector<std::string> flags = {"--model", kStoryModel, "--listen", "127.0.0.1:0", "--seed",
                                      "11",      "--threads", "2",        "--state-dir", state()};
    flags.insert(flags.end(), more.begin(), more.end());
    client_.reset();
    process_ = std::make_unique<Process>(std::move(flags));
    client_.emplace(process_->WaitUntilReady());
  }
  void Kill() {
    process_->Signal(SIGKILL);
    EXPECT_EQ(process_->Wait(), -SIGKILL);
  }
  // The same class at a server that nothing happens to.
  std::unique_ptr<TestServer> Uninterrupted() {
    server::Options options = OptionsFor(kStoryModel);
    options.seed = 11;
    return std::make_unique<TestServer>(options);
  }
  static std::vector<std::string> OpenClass(Client& client) {
    std::vector<std::string> ids;
    for (int i = 0; i < kStudents; ++i) {
      v1::CreateSessionRequest create;
      create.set_label(absl::StrCat("student ", i));
      create.mutable_default_sampling()->set_temperature(0.8f + 0.02f * static_cast<float>(i));
      ids.push_back(CreateSession(client, create));
    }
    return ids;
  }
  static std::string Line(int student, int turn) {
    return absl::StrCat(turn == 1 ? "옛날에 " : " 그 다음 ", student, "번 여우가");
  }

  const TempDir directory_;
  std::unique_ptr<Process> process_;
  std::optional<Client> client_;
};

TEST_F(RestartTest, AClassGoesOnAfterKillInTheMiddleOfATurn) {
  const std::unique_ptr<TestServer> uninterrupted = Uninterrupted();
  const std::vector<std::string> others = OpenClass(uninterrupted->client());
  Start();
  const std::vector<std::string> ids = OpenClass(*client_);
  for (int turn = 1; turn <= 2; ++turn) {
    for (int i = 0; i < kStudents; ++i) {
      EXPECT_EQ(Words(Speak(*client_, ids[i], Line(i, turn))),
                Words(Speak(uninterrupted->client(), others[i], Line(i, turn))));
    }
  }
  // A save is answered when it is on the disk, and so is all of its session before it.
  for (const std::string& id : ids) ASSERT_TRUE(SaveAs(*client_, id, id).ok());
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < kStudents; ++i) {
    streams.push_back(std::make_unique<Stream>(*client_, SampledTurn(ids[i], Line(i, 3), 200)));
    ASSERT_TRUE(streams.back()->ReadUntil(v1::GenerateEvent::kDelta));
  }
  Kill();
  for (const auto& stream : streams) EXPECT_FALSE(stream->Finish().ok());

  Start();
  for (int turn = 3; turn <= 4; ++turn) {
    for (int i = 0; i < kStudents; ++i) {
      v1::GenerateRequest request = SampledTurn(ids[i], Line(i, turn));
      request.set_expected_turn(turn - 1);
      v1::GenerateResponse response;
      const grpc::Status status = Unary(*client_, request, response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(Words(response), Words(Speak(uninterrupted->client(), others[i], Line(i, turn))));
    }
  }
  for (int i = 0; i < kStudents; ++i) {
    EXPECT_EQ(GetSession(*client_, ids[i]).label(), absl::StrCat("student ", i));
  }
  ExpectInvariants(*client_);
}

TEST_F(RestartTest, AnOrderlyEndSavesWhatIsWaiting) {
  Start();
  const std::vector<std::string> ids = OpenClass(*client_);
  std::vector<std::string> last;
  for (int i = 0; i < kStudents; ++i) last.push_back(Speak(*client_, ids[i], Line(i, 1)).text());
  process_->Signal(SIGTERM);
  EXPECT_EQ(process_->Wait(), 0);
  Start();
  for (int i = 0; i < kStudents; ++i) {
    const v1::Session session = GetSession(*client_, ids[i]);
    EXPECT_EQ(session.turn(), 1u);
    EXPECT_EQ(session.last_text(), last[i]);
    EXPECT_FALSE(session.other_numerics());
  }
}

TEST_F(RestartTest, WithoutAutosaveWhatWasSavedGoesOn) {
  Start({"--autosave", "off"});
  const std::vector<std::string> ids = OpenClass(*client_);
  Speak(*client_, ids[0], Line(0, 1));
  ASSERT_TRUE(SaveAs(*client_, ids[0], ids[0]).ok());
  ASSERT_TRUE(SaveAs(*client_, ids[1], "aside").ok());
  Speak(*client_, ids[0], Line(0, 2));
  Kill();
  Start({"--autosave", "off"});
  EXPECT_EQ(GetSession(*client_, ids[0]).turn(), 1u);
  v1::Session session;
  ASSERT_TRUE(RestoreFrom(*client_, "aside", session).ok());
  EXPECT_EQ(session.id(), ids[1]);
}

TEST_F(RestartTest, WhatIsDamagedOrAnotherModelsStaysAndIsNamed) {
  Start();
  const std::vector<std::string> ids = OpenClass(*client_);
  for (const std::string& id : ids) ASSERT_TRUE(SaveAs(*client_, id, id).ok());
  process_->Signal(SIGTERM);
  EXPECT_EQ(process_->Wait(), 0);
  const auto size = std::filesystem::file_size(EntryOf(ids[0]));
  std::filesystem::resize_file(EntryOf(ids[0]), size - 1);
  std::fstream(EntryOf(ids[1]), std::ios::in | std::ios::out | std::ios::binary).seekp(60).put('x');

  Start();
  v1::GetSessionRequest get;
  v1::Session session;
  for (int i = 0; i < kStudents; ++i) {
    get.set_session_id(ids[i]);
    const grpc::Status status =
        Call(client_->sessions, &v1::SessionService::Stub::GetSession, get, session);
    EXPECT_EQ(status.error_code(), i < 2 ? Code::NOT_FOUND : Code::OK);
  }
  ExpectError(RestoreFrom(*client_, ids[0], session), Code::DATA_LOSS);
  process_->Signal(SIGTERM);
  const std::string log = process_->ReadErrors();
  EXPECT_EQ(process_->Wait(), 0);
  EXPECT_THAT(log, AllOf(HasSubstr(ids[0].substr(0, 6)), HasSubstr(ids[1].substr(0, 6)),
                         HasSubstr("DATA_LOSS"), HasSubstr("saved sessions that go on: 6"),
                         testing::Not(HasSubstr(ids[0]))));
  EXPECT_TRUE(std::filesystem::exists(EntryOf(ids[0])));

  Process other({"--model", kTinyModel, "--listen", "127.0.0.1:0", "--state-dir", state()});
  Client client(other.WaitUntilReady());
  ExpectError(RestoreFrom(client, ids[2], session), Code::FAILED_PRECONDITION);
  other.Signal(SIGTERM);
  EXPECT_THAT(other.ReadErrors(), HasSubstr("digest"));
  EXPECT_EQ(other.Wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(EntryOf(ids[2])));
}

TEST_F(RestartTest, WhoHasNoPlaceWaitsInTheDirectory) {
  Start();
  const std::vector<std::string> ids = OpenClass(*client_);
  for (const std::string& id : ids) ASSERT_TRUE(SaveAs(*client_, id, id).ok());
  Kill();
  Start({"--max-sessions", "3"});
  v1::Session session;
  ExpectError(RestoreFrom(*client_, ids[0], session), Code::RESOURCE_EXHAUSTED);
  v1::CloseSessionRequest close;
  close.set_session_id(ids.back());
  v1::CloseSessionResponse closed;
  ASSERT_TRUE(Call(client_->sessions, &v1::SessionService::Stub::CloseSession, close, closed).ok());
  EXPECT_TRUE(RestoreFrom(*client_, ids[0], session).ok()) << "the last saved went on first";
}

// However long the server was off, who was active last keeps its place.
TEST_F(RestartTest, WhoWasActiveLastIsFirst) {
  Start({"--session-idle-timeout", "0s"});
  const std::vector<std::string> ids = OpenClass(*client_);
  for (const std::string& id : ids) ASSERT_TRUE(SaveAs(*client_, id, id).ok());
  Kill();
  auto then = std::filesystem::last_write_time(EntryOf(ids.back()));
  for (auto id = ids.rbegin(); id != ids.rend(); ++id, then -= std::chrono::seconds(1)) {
    std::filesystem::last_write_time(EntryOf(*id), then);
  }
  Start({"--max-sessions", "3", "--session-idle-timeout", "0s"});
  v1::ListSessionsResponse list;
  ASSERT_TRUE(Call(client_->sessions, &v1::SessionService::Stub::ListSessions,
                   v1::ListSessionsRequest(), list)
                  .ok());
  std::vector<std::string> there;
  for (const v1::Session& session : list.sessions()) there.push_back(session.id());
  EXPECT_THAT(there, testing::UnorderedElementsAreArray(ids.end() - 3, ids.end()));
}

TEST_F(RestartTest, WhoLostItsPlaceCanBeClosedForGood) {
  Start({"--max-sessions", "1", "--session-idle-timeout", "0s"});
  const std::string lost = CreateSession(*client_);
  ASSERT_TRUE(SaveAs(*client_, lost, lost).ok());
  CreateSession(*client_);
  ASSERT_TRUE(std::filesystem::exists(EntryOf(lost)));
  v1::CloseSessionRequest close;
  close.set_session_id(lost);
  v1::CloseSessionResponse closed;
  const auto call = [&] {
    return Call(client_->sessions, &v1::SessionService::Stub::CloseSession, close, closed);
  };
  EXPECT_TRUE(call().ok());
  EXPECT_FALSE(std::filesystem::exists(EntryOf(lost)));
  ExpectError(call(), Code::NOT_FOUND);
}

TEST_F(RestartTest, ADirectoryIsOneServersAndItsUsersAlone) {
  Start();
  Process second({"--model", kTinyModel, "--listen", "127.0.0.1:0", "--state-dir", state()});
  EXPECT_THAT(second.ReadErrors(), AllOf(HasSubstr("--state-dir"), HasSubstr("another server")));
  EXPECT_EQ(second.Wait(), 2);
  process_->Signal(SIGTERM);
  EXPECT_EQ(process_->Wait(), 0);
  std::filesystem::permissions(state(), std::filesystem::perms(0755));
  Process open({"--model", kTinyModel, "--listen", "127.0.0.1:0", "--state-dir", state()});
  EXPECT_THAT(open.ReadErrors(), AllOf(HasSubstr("0755"), HasSubstr("0700")));
  EXPECT_EQ(open.Wait(), 2);
}

}  // namespace
}  // namespace luna::integration
