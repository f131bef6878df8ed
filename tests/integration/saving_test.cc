// Sessions that are saved and restored, over the wire.
#include "tests/integration/saving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/temp_dir.h"
#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using Code = grpc::StatusCode;
using Sessions = v1::SessionService::Stub;
using ::testing::HasSubstr;

server::Options Seeded(const std::string& model, const std::string& state_dir = "") {
  server::Options options = OptionsFor(model);
  options.seed = 5;
  options.state_dir = state_dir;
  options.autosave = !state_dir.empty();
  return options;
}

void Close(Client& client, const std::string& id) {
  v1::CloseSessionRequest request;
  request.set_session_id(id);
  v1::CloseSessionResponse response;
  EXPECT_TRUE(Call(client.sessions, &Sessions::CloseSession, request, response).ok());
}

size_t NumSessions(Client& client) {
  v1::ListSessionsResponse list;
  EXPECT_TRUE(Call(client.sessions, &Sessions::ListSessions, v1::ListSessionsRequest(), list).ok());
  return static_cast<size_t>(list.sessions_size());
}

// What a caller set and what came of it; not when.
std::string Facts(v1::Session session) {
  session.clear_last_active();
  return session.SerializeAsString();
}

TEST(SavingTest, AClassMovesToAnotherServer) {
  TestServer uninterrupted(Seeded(kStoryModel));
  TestServer from(Seeded(kStoryModel));
  TestServer to(Seeded(kStoryModel));
  v1::CreateSessionRequest create;
  create.set_label("은하");
  create.mutable_default_sampling()->set_temperature(0.9f);
  create.set_context_policy(v1::CONTEXT_POLICY_DROP_OLDEST);
  create.set_quota_bytes(512 << 10);
  for (int i = 0; i < 3; ++i) {
    const std::string other = CreateSession(uninterrupted.client(), create);
    const std::string id = CreateSession(from.client(), create);
    for (const char* text : {"옛날 옛적에", " 그리고"}) {
      EXPECT_EQ(Words(Speak(from.client(), id, text)),
                Words(Speak(uninterrupted.client(), other, text)));
    }
    const v1::Session before = GetSession(from.client(), id);
    std::string snapshot;
    ASSERT_TRUE(Save(from.client(), id, snapshot).ok());
    v1::Session session;
    const grpc::Status restored = Restore(to.client(), snapshot, session);
    ASSERT_TRUE(restored.ok()) << restored.error_message();
    EXPECT_EQ(Facts(session), Facts(before));
    EXPECT_EQ(Facts(GetSession(to.client(), id)), Facts(before));
    for (const char* text : {" 그래서", " 마침내"}) {
      EXPECT_EQ(Words(Speak(to.client(), id, text)),
                Words(Speak(uninterrupted.client(), other, text)));
    }
    EXPECT_EQ(GetSession(from.client(), id).turn(), 2u) << "a save leaves the session as it is";
  }
  ExpectInvariants(to.client());
}

class StateDirTest : public ::testing::Test {
 protected:
  StateDirTest() : server_(Seeded(kStoryModel, state())) {}

  Client& client() { return server_.client(); }
  std::string state() const { return directory_.path() + "/state"; }
  std::vector<std::string> Entries() const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(state())) {
      if (file.path().extension() == ".luna-session") names.push_back(file.path().stem());
    }
    return names;
  }
  // An autosave follows its turn at once, and nobody waits for it.
  void AwaitEntries(size_t count) {
    for (int i = 0; i < 1000 && Entries().size() != count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(Entries().size(), count);
  }

  const TempDir directory_;
  TestServer server_;
};

TEST_F(StateDirTest, ASessionIsSetAsideUnderAName) {
  const std::string id = CreateSession(client());
  const std::string first = Words(Speak(client(), id, "Once upon a time"));
  ASSERT_TRUE(SaveAs(client(), id, "fox").ok());
  const std::string second = Words(Speak(client(), id, " and then"));
  v1::Session session;
  const grpc::Status lives = RestoreFrom(client(), "fox", session);
  ExpectError(lives, Code::ALREADY_EXISTS);
  Close(client(), id);
  ASSERT_TRUE(RestoreFrom(client(), "fox", session).ok());
  EXPECT_EQ(session.id(), id);
  EXPECT_EQ(session.turn(), 1u);
  EXPECT_EQ(Words(Speak(client(), id, " and then")), second);
}

TEST_F(StateDirTest, WhatIsSavedUnderItsIdGoesWhenTheSessionIsClosed) {
  const std::string id = CreateSession(client());
  AwaitEntries(1);
  EXPECT_THAT(Entries(), ::testing::ElementsAre(id));
  Speak(client(), id, "Once upon a time");
  ASSERT_TRUE(SaveAs(client(), id, id).ok());
  ASSERT_TRUE(SaveAs(client(), id, "kept").ok());
  Close(client(), id);
  AwaitEntries(1);
  v1::Session session;
  ExpectError(RestoreFrom(client(), id, session), Code::NOT_FOUND);
  ASSERT_TRUE(RestoreFrom(client(), "kept", session).ok());
  EXPECT_EQ(session.id(), id);
  AwaitEntries(2);
}

TEST_F(StateDirTest, NamesThatAreNoneAreRefused) {
  const std::string id = CreateSession(client());
  const std::string other = CreateSession(client());
  for (const std::string& name : {std::string("../x"), std::string("a.b"), std::string(65, 'a'),
                                  std::string("가"), std::string("a/b"), other}) {
    const grpc::Status status = SaveAs(client(), id, name);
    ExpectError(status, Code::INVALID_ARGUMENT);
    EXPECT_EQ(ViolatedField(status), "name");
  }
  v1::Session session;
  ExpectError(RestoreFrom(client(), "../x", session), Code::INVALID_ARGUMENT);
  ExpectError(RestoreFrom(client(), "nothing", session), Code::NOT_FOUND);
  std::string snapshot;
  ExpectError(Save(client(), "nobody", snapshot), Code::NOT_FOUND);
  ExpectError(SaveAs(client(), "nobody", "x"), Code::NOT_FOUND);
}

TEST(SavingTest, NamesTakeAStateDirectory) {
  TestServer server(Seeded(kTinyModel));
  const std::string id = CreateSession(server.client());
  const grpc::Status save = SaveAs(server.client(), id, "x");
  ExpectError(save, Code::FAILED_PRECONDITION);
  EXPECT_THAT(save.error_message(), HasSubstr("--state-dir"));
  EXPECT_EQ(ViolatedField(save), "name");
  v1::Session session;
  ExpectError(RestoreFrom(server.client(), "x", session), Code::FAILED_PRECONDITION);
}

class RefusedSnapshotTest : public ::testing::Test {
 protected:
  RefusedSnapshotTest() : server_(Seeded(kTinyModel)) {
    const std::string id = CreateSession(client());
    Speak(client(), id, "ab");
    EXPECT_TRUE(Save(client(), id, snapshot_).ok());
    Close(client(), id);
  }
  Client& client() { return server_.client(); }
  grpc::Status Refusal(const std::vector<v1::SessionChunk>& chunks) {
    v1::Session session;
    grpc::Status status = Restore(client(), chunks, session);
    EXPECT_EQ(NumSessions(client()), 0u);
    return status;
  }
  grpc::Status Refusal(const std::string& data) {
    std::vector<v1::SessionChunk> chunks(1);
    chunks[0].set_data(data);
    return Refusal(chunks);
  }

  TestServer server_;
  std::string snapshot_;
};

TEST_F(RefusedSnapshotTest, EveryFlippedByteAndEveryCut) {
  for (size_t at = 0; at < snapshot_.size(); ++at) {
    std::string flipped = snapshot_;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_EQ(Refusal(flipped).error_code(), Code::DATA_LOSS) << at;
  }
  for (size_t size = 1; size < snapshot_.size(); size += 7) {
    EXPECT_EQ(Refusal(snapshot_.substr(0, size)).error_code(), Code::DATA_LOSS) << size;
  }
  ExpectError(Refusal(snapshot_ + "x"), Code::DATA_LOSS);
  v1::Session session;
  EXPECT_TRUE(Restore(client(), snapshot_, session).ok()) << "the whole one is still good";
}

TEST_F(RefusedSnapshotTest, AnotherModels) {
  TestServer other(Seeded(kStoryModel));
  v1::Session session;
  const grpc::Status status = Restore(other.client(), snapshot_, session);
  ExpectError(status, Code::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("digest"));
  EXPECT_EQ(NumSessions(other.client()), 0u);
}

TEST_F(RefusedSnapshotTest, NothingAtAllAndNamesBesideData) {
  ExpectError(Refusal(std::vector<v1::SessionChunk>()), Code::INVALID_ARGUMENT);
  ExpectError(Refusal(std::vector<v1::SessionChunk>(3)), Code::INVALID_ARGUMENT);
  std::vector<v1::SessionChunk> chunks(1);
  chunks[0].set_data(snapshot_);
  chunks[0].set_name("x");
  ExpectError(Refusal(chunks), Code::INVALID_ARGUMENT);
  chunks[0].clear_name();
  chunks.emplace_back().set_name("x");
  const grpc::Status status = Refusal(chunks);
  ExpectError(status, Code::INVALID_ARGUMENT);
  EXPECT_EQ(ViolatedField(status), "name");
}

TEST_F(RefusedSnapshotTest, MoreThanAnySessionHas) {
  std::vector<v1::SessionChunk> chunks(64);
  for (v1::SessionChunk& chunk : chunks) chunk.set_data(std::string(1 << 20, 'x'));
  const grpc::Status status = Refusal(chunks);
  ExpectError(status, Code::INVALID_ARGUMENT);
  EXPECT_EQ(ViolatedField(status), "data");
}

// All of it has come, but not the end, and then the client leaves.
TEST_F(RefusedSnapshotTest, OfAClientThatLeaves) {
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    v1::Session session;
    const auto writer = client().sessions->RestoreSession(&context, &session);
    v1::SessionChunk chunk;
    chunk.set_data(snapshot_);
    ASSERT_TRUE(writer->Write(chunk));
    if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), Code::CANCELLED);
  }
  EXPECT_EQ(NumSessions(client()), 0u);
}

TEST(SavingTest, ASessionThatIsSpeakingIsNotSaved) {
  const TempDir directory;
  TestServer server(Seeded(kSlowModel, directory.path() + "/state"));
  const std::string id = CreateSession(server.client());
  v1::GenerateRequest request = LongRequest();
  request.set_session_id(id);
  Stream stream(server.client(), request);
  ASSERT_TRUE(stream.ReadUntil(v1::GenerateEvent::kDelta));
  std::string snapshot;
  ExpectError(Save(server.client(), id, snapshot), Code::ABORTED);
  ExpectError(SaveAs(server.client(), id, "x"), Code::ABORTED);
  stream.context.TryCancel();
  stream.Finish();
  WaitFor(server.client(), IsIdle);
  EXPECT_TRUE(SaveAs(server.client(), id, "x").ok());
}

TEST(SavingTest, SavingGoesOnDuringADrainAndRestoringDoesNot) {
  TestServer server(Seeded(kTinyModel));
  const std::string id = CreateSession(server.client());
  server.Drain();
  std::string snapshot;
  EXPECT_TRUE(Save(server.client(), id, snapshot).ok());
  v1::Session session;
  ExpectError(Restore(server.client(), snapshot, session), Code::UNAVAILABLE);
}

}  // namespace
}  // namespace luna::integration
