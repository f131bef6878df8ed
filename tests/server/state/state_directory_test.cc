#include "server/state/state_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "tests/server/state/temporary_directory.h"

namespace luna::state {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class StateDirectoryTest : public ::testing::Test {
 protected:
  // Fails the test if it cannot be opened.
  std::unique_ptr<StateDirectory> Open() {
    auto opened = StateDirectory::Open(files_.state());
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  absl::Status OpenStatus() { return StateDirectory::Open(files_.state()).status(); }

  static std::vector<std::string> Names(const StateDirectory& directory) {
    std::vector<std::string> names;
    const auto entries = directory.List();
    EXPECT_TRUE(entries.ok()) << entries.status();
    for (const StateEntry& entry : *entries) names.push_back(entry.name);
    return names;
  }
  // Of the files, the lock apart.
  std::vector<std::string> FileNames() const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(files_.state())) {
      if (file.path().filename() != ".lock") names.push_back(file.path().filename());
    }
    return names;
  }

  TemporaryDirectory files_;
};

TEST_F(StateDirectoryTest, IsMadeForItsOwnerAlone) {
  const auto directory = Open();
  EXPECT_EQ(ModeOf(files_.state()), 0700);
  ASSERT_TRUE(directory->Write("a", "bytes").ok());
  EXPECT_EQ(ModeOf(files_.Entry("a")), 0600);
  EXPECT_EQ(ModeOf(absl::StrCat(files_.state(), "/.lock")), 0600);
}

TEST_F(StateDirectoryTest, WhatIsWrittenIsReadAlsoByTheNextServer) {
  const std::string bytes("any\0bytes\xff", 10);
  {
    const auto directory = Open();
    ASSERT_TRUE(directory->Write("a", bytes).ok());
    EXPECT_EQ(*directory->Read("a"), bytes);
    ASSERT_TRUE(directory->Write("a", "").ok());
    EXPECT_EQ(*directory->Read("a"), "");
    ASSERT_TRUE(directory->Write("a", bytes).ok());
  }
  EXPECT_EQ(*Open()->Read("a"), bytes);
}

TEST_F(StateDirectoryTest, WhatIsNotThereIsNotFound) {
  const auto directory = Open();
  const absl::Status status = directory->Read("a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "there is no saved session 'a'");
  EXPECT_EQ(directory->Remove("a"), status);
  ASSERT_TRUE(directory->Write("a", "x").ok());
  EXPECT_TRUE(directory->Remove("a").ok());
  EXPECT_EQ(directory->Remove("a"), status);
  EXPECT_THAT(FileNames(), IsEmpty());
}

TEST_F(StateDirectoryTest, MessagesDoNotCarryKeys) {
  const std::string key = "0123456789abcdef0123456789abcdef";
  const absl::Status status = Open()->Read(key).status();
  EXPECT_EQ(status.message(), "there is no saved session '012345...'");
}

TEST_F(StateDirectoryTest, IsRefusedWhereItWouldNotBeSecretOrOfUse) {
  for (const mode_t mode : {0755, 0770, 0702, 0500, 0600}) {
    std::filesystem::create_directory(files_.state());
    ASSERT_EQ(chmod(files_.state().c_str(), mode), 0);
    const absl::Status status = OpenStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(Message(status), HasSubstr(files_.state()));
    EXPECT_THAT(Message(status),
                HasSubstr(absl::StrCat("mode 0", absl::Hex(mode >> 6), absl::Hex(mode >> 3 & 7),
                                       absl::Hex(mode & 7))));
    EXPECT_THAT(FileNames(), IsEmpty());
  }
}

TEST_F(StateDirectoryTest, IsRefusedWhereItIsAFileOrHasNoPlace) {
  WriteFile(files_.state(), "");
  absl::Status status = OpenStatus();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            absl::StrCat("opening state directory ", files_.state(), ": Not a directory"));
  const std::string nowhere = absl::StrCat(files_.root(), "/nowhere/state");
  status = StateDirectory::Open(nowhere).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(status), HasSubstr(nowhere));
}

TEST_F(StateDirectoryTest, IsOneServersAtATime) {
  auto first = Open();
  const absl::Status status = OpenStatus();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), absl::StrCat("state directory ", files_.state(),
                                           " is in use by another server; each needs its own"));
  first.reset();
  EXPECT_TRUE(OpenStatus().ok());
}

TEST_F(StateDirectoryTest, WhatACrashLeftIsSweptAndStrangersAreNot) {
  ASSERT_TRUE(Open()->Write("a", "old").ok());
  WriteFile(absl::StrCat(files_.state(), "/.tmp-0"), "half of what was to be wri");
  WriteFile(absl::StrCat(files_.state(), "/.tmp-17"), "");
  WriteFile(absl::StrCat(files_.state(), "/notes.txt"), "mine");
  const auto directory = Open();
  EXPECT_THAT(FileNames(), ::testing::UnorderedElementsAre("a.luna-session", "notes.txt"));
  EXPECT_EQ(*directory->Read("a"), "old");
  EXPECT_THAT(Names(*directory), ElementsAre("a"));
}

TEST_F(StateDirectoryTest, NamesThatAreNoEntriesAreRefused) {
  const auto directory = Open();
  const std::vector<std::string> names = {
      "",    std::string(65, 'a'),   "..", ".",   "a/b",   "../a", "/etc/passwd", "a.b",
      "a b", std::string("a\0b", 3), "가", "a\n", ".lock", "*",    ".tmp-0",      "a\\b"};
  for (const std::string& name : names) {
    for (const absl::Status& status :
         {directory->Write(name, "x"), directory->Read(name).status(), directory->Remove(name)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
      EXPECT_EQ(FieldOf(status), "name");
    }
  }
  EXPECT_THAT(FileNames(), IsEmpty());
  EXPECT_TRUE(directory->Write(std::string(64, 'a'), "x").ok());
  EXPECT_TRUE(directory->Write("-AZaz09_", "x").ok());
}

TEST_F(StateDirectoryTest, LinksAreNotFollowed) {
  const auto directory = Open();
  const std::string secret = absl::StrCat(files_.root(), "/secret");
  WriteFile(secret, "secret");
  std::filesystem::create_symlink(secret, files_.Entry("a"));
  EXPECT_EQ(directory->Read("a").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Names(*directory), IsEmpty());
  // The link is replaced, not what it points to.
  ASSERT_TRUE(directory->Write("a", "mine").ok());
  EXPECT_EQ(*directory->Read("a"), "mine");
  EXPECT_EQ(ReadFile(secret), "secret");
}

TEST_F(StateDirectoryTest, WhatIsNoFileNeitherBlocksNorCounts) {
  const auto directory = Open();
  ASSERT_EQ(mkfifo(files_.Entry("pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(files_.Entry("directory"));
  for (const char* name : {"pipe", "directory"}) {
    const absl::Status status = directory->Read(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  }
  EXPECT_EQ(directory->Write("directory", "x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(directory->Remove("directory").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Names(*directory), IsEmpty());
  EXPECT_EQ(FileNames().size(), 2u);  // no temporary one is left
}

// The limit of a file's size stands for a full disk: a write stops in the middle.
TEST_F(StateDirectoryTest, AWriteThatFailsLeavesWhatWas) {
  const auto directory = Open();
  ASSERT_TRUE(directory->Write("a", "old").ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = directory->Write("a", std::string(10'000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);

  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "writing saved session 'a': writing its 10000 bytes: File too large");
  EXPECT_EQ(*directory->Read("a"), "old");
  EXPECT_THAT(FileNames(), ElementsAre("a.luna-session"));
}

TEST_F(StateDirectoryTest, AReaderSeesTheOldOrTheNew) {
  const auto directory = Open();
  const std::string small(10, 'a'), large(300'000, 'b');
  ASSERT_TRUE(directory->Write("a", small).ok());
  std::atomic<bool> written = false;
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(directory->Write("a", i % 2 ? small : large).ok());
    written = true;
  });
  int reads = 0;
  while (!written) {
    const auto bytes = directory->Read("a");
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(bytes.ok() && (*bytes == small || *bytes == large));
    ++reads;
  }
  writer.join();
  EXPECT_GT(reads, 0);
}

// Writes one entry after the other, without an end; one byte to `pipe` after each.
[[noreturn]] void WriteForever(const std::string& path, const std::vector<std::string>& contents,
                               int pipe) {
  const auto directory = StateDirectory::Open(path);
  if (!directory.ok()) _exit(1);
  for (size_t i = 0;; ++i) {
    if (!(*directory)->Write("a", contents[i % contents.size()]).ok()) _exit(1);
    if (write(pipe, "x", 1) != 1) _exit(1);
  }
}

TEST_F(StateDirectoryTest, AServerThatIsKilledLeavesTheOldOrTheNew) {
  const std::vector<std::string> contents = {std::string(10, 'a'), std::string(300'000, 'b')};
  for (int round = 0; round < 10; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t server = fork();
    ASSERT_GE(server, 0);
    if (server == 0) WriteForever(files_.state(), contents, ends[1]);
    close(ends[1]);
    char written;
    for (int i = 0; i <= round; ++i) EXPECT_EQ(read(ends[0], &written, 1), 1);
    kill(server, SIGKILL);  // whatever it is at
    int status = 0;
    waitpid(server, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    close(ends[0]);

    const auto directory = Open();  // its lock is gone
    const auto bytes = directory->Read("a");
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_THAT(contents, ::testing::Contains(*bytes));
    EXPECT_THAT(FileNames(), ElementsAre("a.luna-session"));
  }
}

TEST_F(StateDirectoryTest, ListsTheMostRecentFirst) {
  const auto directory = Open();
  const absl::Time then = absl::FromUnixSeconds(1'700'000'000);
  const std::vector<std::string> names = {"d", "b", "c", "a"};
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_TRUE(directory->Write(names[i], std::string(i, 'x')).ok());
    SetModified(files_.Entry(names[i]), then + absl::Seconds(i / 2));
  }
  EXPECT_THAT(Names(*directory), ElementsAre("a", "c", "b", "d"));
  const auto entries = directory->List();
  EXPECT_EQ(entries->front().size_bytes, 3);
  EXPECT_EQ(entries->front().modified, then + absl::Seconds(1));
}

TEST_F(StateDirectoryTest, RemovesWhatIsOlder) {
  const auto directory = Open();
  const absl::Time then = absl::FromUnixSeconds(1'700'000'000);
  for (int i = 0; i < 4; ++i) {
    const std::string name = absl::StrCat("e", i);
    ASSERT_TRUE(directory->Write(name, "x").ok());
    SetModified(files_.Entry(name), then + absl::Seconds(i));
  }
  EXPECT_EQ(*directory->RemoveOlderThan(then), 0);
  EXPECT_EQ(*directory->RemoveOlderThan(then + absl::Seconds(2)), 2);
  EXPECT_THAT(Names(*directory), ElementsAre("e3", "e2"));
}

}  // namespace
}  // namespace luna::state
