// luna sessions fork | save | restore | quota | evict, as their users see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/client/luna_command.h"
#include "tests/fakes/temp_dir.h"

namespace luna {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::CliWithServerTest;
using testing_support::Luna;
using testing_support::Outcome;
using testing_support::Subprocess;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int ModeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<int>(info.st_mode & 07777) : -1;
}

class SessionsTest : public CliWithServerTest {
 protected:
  // Two turns, "hello" and "again", of 2 + 20 tokens each: 44 in 3 blocks of 512 bytes.
  void StartWithASession(fake::Behaviour behaviour = {}) {
    Start(std::move(behaviour));
    ASSERT_EQ(Run({"chat", "--keep"}, "hello\nagain\n").code, 0);
  }

  nlohmann::json Show(const std::string& id) {
    return Run({"sessions", "show", id, "--json"}).Json();
  }

  size_t FilesInDirectory() const {
    using Iterator = std::filesystem::directory_iterator;
    return static_cast<size_t>(std::distance(Iterator(directory_.path()), Iterator()));
  }

  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }

  TempDir directory_;
};

TEST_F(SessionsTest, ForkPrintsTheNewIdAndSharesTheCache) {
  StartWithASession();
  const Outcome fork = Run({"sessions", "fork", "session-1"});
  EXPECT_EQ(fork.code, 0) << fork.err;
  ASSERT_THAT(fork.out, testing::MatchesRegex("session-[0-9]+\n"));
  const auto show = Show(fork.out.substr(0, fork.out.size() - 1));
  EXPECT_EQ(show["turn"], 2);
  EXPECT_EQ(show["label"], "chat");
  EXPECT_EQ(show["memory"]["shared_blocks"], 2);
  EXPECT_EQ(show["memory"]["private_blocks"], 1);
  EXPECT_EQ(show["memory"]["charged_bytes"], 3 * 512);
  EXPECT_EQ(show["memory"]["split_bytes"], 2 * 256 + 512);
  EXPECT_THAT(Run({"sessions", "show", "session-1"}).out, HasSubstr("3 blocks (2 shared)"));
  EXPECT_EQ(Run({"top", "--once", "--json"}).Json()["pool"]["shared_blocks"], 2);
  // Twice three blocks of 512 bytes, two of them the same.
  EXPECT_THAT(Run({"top", "--once"}).out,
              HasSubstr(" Shared  1 KiB  saves 1 KiB: sessions' 3 KiB fit in 2 KiB\n"));
}

TEST_F(SessionsTest, ForkGoesBackToATurn) {
  StartWithASession();
  const Outcome fork =
      Run({"sessions", "fork", "session-1", "--at-turn", "1", "--label", "other", "--json"});
  ASSERT_EQ(fork.code, 0) << fork.err;
  EXPECT_EQ(fork.Json()["turn"], 1);
  EXPECT_EQ(fork.Json()["tokens"], 22);
  EXPECT_EQ(fork.Json()["label"], "other");
  const Outcome empty = Run({"sessions", "fork", "session-1", "--at-turn", "0", "--json"});
  EXPECT_EQ(empty.Json()["tokens"], 0);
  const Outcome beyond = Run({"sessions", "fork", "session-1", "--at-turn", "3"});
  EXPECT_EQ(beyond.code, 1);
  EXPECT_THAT(beyond.err, HasSubstr("at_turn: 3 is above the session's turn, 2"));
  EXPECT_EQ(Run({"sessions", "fork", "session-99"}).err,
            "luna: Not found: no session session-99\n");
}

TEST_F(SessionsTest, WhatIsRestoredSavesTheSameBytes) {
  StartWithASession();
  const Outcome save = Run({"sessions", "save", "session-1", "--file", Path("a")});
  ASSERT_EQ(save.code, 0) << save.err;
  EXPECT_THAT(save.out, EndsWith(" B saved to " + Path("a") + "\n"));
  EXPECT_EQ(ModeOf(Path("a")), 0600);
  ASSERT_EQ(Run({"sessions", "close", "session-1"}).code, 0);
  const Outcome restore = Run({"sessions", "restore", "--file", Path("a")});
  EXPECT_EQ(restore.code, 0) << restore.err;
  EXPECT_EQ(restore.out, "session-1\n");
  EXPECT_THAT(restore.err, IsEmpty());
  const auto again = Run({"sessions", "save", "session-1", "--file", Path("b"), "--json"}).Json();
  EXPECT_EQ(again["session_id"], "session-1");
  EXPECT_EQ(again["file"], Path("b"));
  EXPECT_EQ(again["bytes"], std::filesystem::file_size(Path("b")));
  EXPECT_EQ(ReadFile(Path("a")), ReadFile(Path("b")));
  EXPECT_GT(ReadFile(Path("a")).size(), 16u);  // more than a chunk
  EXPECT_EQ(FilesInDirectory(), 2u);
}

TEST_F(SessionsTest, SnapshotsGoThroughPipes) {
  StartWithASession();
  const Outcome save = Run({"sessions", "save", "session-1", "--file", "-"});
  ASSERT_EQ(save.code, 0) << save.err;
  ASSERT_EQ(Run({"sessions", "save", "session-1", "--file", Path("a")}).code, 0);
  EXPECT_EQ(save.out, ReadFile(Path("a")));
  ASSERT_EQ(Run({"sessions", "close", "session-1"}).code, 0);
  const Outcome restore = Run({"sessions", "restore", "--file", "-", "--json"}, save.out);
  ASSERT_EQ(restore.code, 0) << restore.err;
  EXPECT_EQ(restore.Json()["turn"], 2);
  EXPECT_FALSE(restore.Json()["other_numerics"]);
}

TEST_F(SessionsTest, ASnapshotIsKeptByTheServerUnderAName) {
  StartWithASession();
  EXPECT_EQ(Run({"sessions", "save", "session-1", "--name", "lesson_3-a"}).out,
            "saved on the server as lesson_3-a\n");
  EXPECT_EQ(Run({"sessions", "save", "session-1", "--name", "b", "--json"}).Json()["name"], "b");
  const Outcome living = Run({"sessions", "restore", "--name", "lesson_3-a"});
  EXPECT_EQ(living.code, 1);
  EXPECT_THAT(living.err, HasSubstr("Already exists: session-1 lives"));
  ASSERT_EQ(Run({"sessions", "close", "session-1"}).code, 0);
  EXPECT_EQ(Run({"sessions", "restore", "--name", "lesson_3-a"}).out, "session-1\n");
  const Outcome unknown = Run({"sessions", "restore", "--name", "c"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("no saved session c"));
}

TEST_F(SessionsTest, AFileThatIsThereStaysUnlessForced) {
  StartWithASession();
  const std::string path = directory_.Write("old", "somebody's work");
  const Outcome refused = Run({"sessions", "save", "session-1", "--file", path});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err,
            "luna: Already exists: " + path + " is there already and stays as it is\n");
  EXPECT_EQ(ReadFile(path), "somebody's work");
  EXPECT_EQ(Run({"sessions", "save", "session-1", "--file", path, "--force"}).code, 0);
  EXPECT_EQ(Run({"sessions", "save", "session-1", "--file", Path("new")}).code, 0);
  EXPECT_EQ(ReadFile(path), ReadFile(Path("new")));
  EXPECT_EQ(ModeOf(path), 0600);
  EXPECT_EQ(FilesInDirectory(), 2u);
  const Outcome directory =
      Run({"sessions", "save", "session-1", "--file", directory_.path(), "--force"});
  EXPECT_EQ(directory.code, 1);
  EXPECT_THAT(directory.err, HasSubstr("is not a regular file"));
  const Outcome nowhere = Run({"sessions", "save", "session-1", "--file", "/no/such/file"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("cannot write /no/such/file: No such file or directory"));
}

TEST_F(SessionsTest, AStreamThatIsCutLeavesNoFile) {
  fake::Behaviour behaviour;
  behaviour.save_cut_after = 2;
  StartWithASession(behaviour);
  const Outcome save = Run({"sessions", "save", "session-1", "--file", Path("a")});
  EXPECT_EQ(save.code, 1);
  EXPECT_THAT(save.err, HasSubstr("the server is going down"));
  EXPECT_EQ(FilesInDirectory(), 0u);
  const std::string path = directory_.Write("old", "somebody's work");
  EXPECT_EQ(Run({"sessions", "save", "session-1", "--file", path, "--force"}).code, 1);
  EXPECT_EQ(ReadFile(path), "somebody's work");
  EXPECT_EQ(FilesInDirectory(), 1u);
  EXPECT_EQ(Run({"sessions", "save", "session-1", "--file", "-"}).code, 1);
}

TEST_F(SessionsTest, AStreamWithNothingInItIsNoSnapshot) {
  fake::Behaviour behaviour;
  behaviour.save_cut_after = 0;
  StartWithASession(behaviour);
  const Outcome save = Run({"sessions", "save", "session-1", "--file", Path("a")});
  EXPECT_EQ(save.code, 1);
  EXPECT_THAT(save.err, HasSubstr("Data loss: the server sent an empty snapshot"));
  EXPECT_EQ(FilesInDirectory(), 0u);
}

TEST_F(SessionsTest, CtrlCDuringASaveLeavesNoFile) {
  fake::Behaviour behaviour;
  behaviour.save_hangs = true;
  StartWithASession(behaviour);
  Subprocess save(Command({"sessions", "save", "session-1", "--file", Path("a")}));
  server_->AwaitHangingSave();
  save.Signal(SIGINT);
  EXPECT_EQ(save.Wait(), 1);
  EXPECT_THAT(save.error(), HasSubstr("Cancelled"));
  EXPECT_EQ(FilesInDirectory(), 0u);
}

TEST_F(SessionsTest, WhatIsDamagedIsRefusedAndChangesNothing) {
  StartWithASession();
  ASSERT_EQ(Run({"sessions", "save", "session-1", "--file", Path("a")}).code, 0);
  ASSERT_EQ(Run({"sessions", "close", "session-1"}).code, 0);
  const std::string whole = ReadFile(Path("a"));
  const std::string cut = directory_.Write("cut", whole.substr(0, whole.size() - 1));
  std::string changed = whole;
  changed[whole.size() / 2] ^= 1;
  const std::string flipped = directory_.Write("flipped", changed);
  for (const std::string& path : {cut, flipped}) {
    const Outcome restore = Run({"sessions", "restore", "--file", path});
    EXPECT_EQ(restore.code, 1);
    EXPECT_EQ(restore.err, "luna: Data loss: the saved session is damaged\n");
  }
  const std::string empty = directory_.Write("empty", "");
  EXPECT_THAT(Run({"sessions", "restore", "--file", empty}).err,
              HasSubstr(empty + " is empty; no session is in it"));
  EXPECT_THAT(Run({"sessions", "restore", "--file", Path("none")}).err,
              HasSubstr("cannot read " + Path("none") + ": No such file or directory"));
  EXPECT_THAT(Run({"sessions", "restore", "--file", directory_.path()}).err,
              HasSubstr("Is a directory"));
  EXPECT_EQ(server_->open_sessions(), 0);
}

TEST_F(SessionsTest, ALargeFileTravelsInPieces) {
  Start();
  const std::string large = directory_.Write("large", std::string(1'200'000, 'x'));
  EXPECT_THAT(Run({"sessions", "restore", "--file", large}).err, HasSubstr("is damaged"));
  EXPECT_EQ(server_->seen().restore_chunks, 3);
}

TEST_F(SessionsTest, OtherNumericsAreTold) {
  fake::Behaviour behaviour;
  behaviour.other_numerics = true;
  StartWithASession(behaviour);
  ASSERT_EQ(Run({"sessions", "save", "session-1", "--name", "a"}).code, 0);
  ASSERT_EQ(Run({"sessions", "close", "session-1"}).code, 0);
  const Outcome restore = Run({"sessions", "restore", "--name", "a"});
  EXPECT_EQ(restore.code, 0);
  EXPECT_EQ(restore.out, "session-1\n");
  EXPECT_THAT(restore.err, HasSubstr("its next words may differ"));
  EXPECT_TRUE(Show("session-1")["other_numerics"]);
  EXPECT_THAT(Run({"sessions", "show", "session-1"}).out, HasSubstr("its next words may differ"));
}

TEST_F(SessionsTest, QuotaTakesSizesAndTellsWhatHolds) {
  StartWithASession();
  EXPECT_EQ(Run({"sessions", "quota", "session-1", "--quota", "2M", "--guarantee", "64k"}).out,
            "guarantee 64 KiB, quota 2 MiB\n");
  // By its handle, rounded down to whole blocks; what is not given stays.
  const auto json =
      Run({"sessions", "quota", "h-session-1", "--guarantee", "1000", "--json"}).Json();
  EXPECT_EQ(json["guarantee_bytes"], 512);
  EXPECT_EQ(json["quota_bytes"], 2 << 20);
  EXPECT_EQ(Show("session-1")["memory"]["guaranteed_bytes"], 512);
  EXPECT_EQ(Show("session-1")["memory"]["evictions"], 0);
  // A quota below what is held drops cache and keeps history.
  EXPECT_EQ(Run({"sessions", "quota", "session-1", "--quota", "1K"}).code, 0);
  EXPECT_EQ(Show("session-1")["memory"]["private_blocks"], 2);
  EXPECT_EQ(Show("session-1")["tokens"], 44);
}

TEST_F(SessionsTest, QuotaTellsWhatCannotBe) {
  StartWithASession();
  const Outcome above =
      Run({"sessions", "quota", "session-1", "--quota", "1K", "--guarantee", "2K"});
  EXPECT_EQ(above.code, 1);
  EXPECT_THAT(above.err, HasSubstr("guarantee_bytes: 2048 is above the session's quota, 1024"));
  const Outcome promise =
      Run({"sessions", "quota", "session-1", "--quota", "1G", "--guarantee", "1G"});
  EXPECT_EQ(promise.code, 1);
  EXPECT_THAT(promise.err, HasSubstr("Resource exhausted: the pool cannot promise so much"));
  EXPECT_EQ(Show("session-1")["guarantee_bytes"], 0);
}

TEST_F(SessionsTest, EvictStopsAtTheGuaranteeUnlessForced) {
  StartWithASession();
  ASSERT_EQ(Run({"sessions", "quota", "session-1", "--guarantee", "512"}).code, 0);
  EXPECT_EQ(Run({"sessions", "evict", "session-1"}).out, "1 KiB evicted, 512 B still held\n");
  const auto forced = Run({"sessions", "evict", "h-session-1", "--force", "--json"}).Json();
  EXPECT_EQ(forced["evicted_bytes"], 512);
  EXPECT_EQ(forced["charged_bytes"], 0);
  EXPECT_EQ(Show("session-1")["memory"]["evictions"], 2);
  const Outcome unknown = Run({"sessions", "evict", "h-session-9"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("no session h-session-9"));
}

TEST(SessionsUsageTest, WrongArgumentsNameThingValueAndLimit) {
  const struct {
    std::vector<std::string> arguments;
    std::string says;
  } cases[] = {
      {{"fork"}, "ID is required"},
      {{"fork", "x", "--at-turn", "-1"}, "--at-turn: '-1' is not a whole number from 0 to"},
      {{"save", "x"}, "--file,--name"},
      {{"save", "x", "--file", "a", "--name", "b"}, "Exactly 1 option"},
      {{"save", "x", "--file", ""}, "--file: '' is not a path"},
      {{"save", "x", "--name", "../up"}, "--name: '../up' is not a name of 1 to 64 of the letters"},
      {{"save", "x", "--name", ""}, "--name: '' is not a name of 1 to 64"},
      {{"save", "x", "--name", std::string(65, 'a')}, "is not a name of 1 to 64"},
      {{"restore"}, "--file,--name"},
      {{"restore", "--name", "a.b"}, "--name: 'a.b' is not a name of 1 to 64"},
      {{"quota", "x"}, "--quota,--guarantee"},
      {{"quota", "--quota", "1M"}, "ID is required"},
      {{"evict"}, "ID is required"}};
  for (const auto& [arguments, says] : cases) {
    std::vector<std::string> line = arguments;
    line.insert(line.begin(), "sessions");
    const Outcome outcome = Luna(line);
    EXPECT_EQ(outcome.code, 2) << says;
    EXPECT_THAT(outcome.err, HasSubstr(says));
  }
}

TEST(SessionsUsageTest, SizesAreTakenStrictly) {
  for (const char* size : {"-1", "", "M", "1.5G", "0x10", "64Q", "1 M", " 1", "+1", "64MiB",
                           "18446744073709551616", "16777216T"}) {
    for (const char* option : {"--quota", "--guarantee"}) {
      const Outcome outcome = Luna({"sessions", "quota", "x", option, size});
      EXPECT_EQ(outcome.code, 2) << size;
      EXPECT_THAT(outcome.err, HasSubstr(std::string(option) + ": '" + size +
                                         "' is not a number of bytes from 0 to"));
    }
  }
}

TEST(SessionsUsageTest, ASnapshotLeavesNoRoomForADocument) {
  const Outcome outcome = Luna({"sessions", "save", "x", "--file", "-", "--json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--json: standard output takes the snapshot itself"));
}

}  // namespace
}  // namespace luna
