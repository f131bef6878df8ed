#include "server/state/state_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "server/state/entry_name.h"
#include "server/state/snapshot_format.h"
#include "tests/server/state/saved_sessions.h"
#include "tests/server/state/temporary_directory.h"

namespace luna::state {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StateKeeperTest : public ::testing::Test {
 protected:
  void Start(KeeperOptions options = {}) {
    keeper_.reset();
    auto directory = StateDirectory::Open(files_.state());
    ASSERT_TRUE(directory.ok()) << directory.status();
    keeper_ = std::make_unique<StateKeeper>(*std::move(directory), &clock_, options);
  }
  void TearDown() override {
    if (busy_) LetGo();
  }

  // The keeper's thread is at work until LetGo, so that what waits can be arranged.
  void KeepBusy() {
    busy_ = true;
    go_ = std::promise<void>();
    const auto begun = std::make_shared<std::promise<void>>();
    keeper_->Load("busy", [this, begun](const auto&) {
      begun->set_value();
      go_.get_future().wait();
    });
    begun->get_future().wait();
  }
  void LetGo() {
    busy_ = false;
    go_.set_value();
  }

  absl::Status Save(engine::SavedSession session, const std::string& name) {
    const auto done = std::make_shared<std::promise<absl::Status>>();
    keeper_->Save(std::move(session), name,
                  [done](absl::Status status) { done->set_value(status); });
    return done->get_future().get();
  }
  void Remove(const std::string& name) {
    keeper_->Remove(name, [](absl::Status) {});
  }
  absl::StatusOr<engine::SavedSession> Load(const std::string& name) {
    const auto done = std::make_shared<std::promise<absl::StatusOr<engine::SavedSession>>>();
    keeper_->Load(name, [done](auto session) { done->set_value(std::move(session)); });
    return done->get_future().get();
  }

  static engine::SavedSession Labelled(uint64_t n, const std::string& label) {
    engine::SavedSession session = SmallSession(n);
    session.label = label;
    return session;
  }
  // Of the label that is saved under a key; why not, if none is.
  std::string LabelOf(uint64_t n) {
    const auto session = Load(KeyOf(n));
    return session.ok() ? session->label : absl::StatusCodeToString(session.status().code());
  }

  TemporaryDirectory files_;
  FakeClock clock_;
  std::unique_ptr<StateKeeper> keeper_;
  std::promise<void> go_;
  bool busy_ = false;
};

TEST_F(StateKeeperTest, ASavedSessionIsLoadedAsItWas) {
  Start();
  ASSERT_TRUE(Save(SmallSession(), "story").ok());
  const auto loaded = Load("story");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectSame(*loaded, SmallSession());
  EXPECT_EQ(Load("other").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StateKeeperTest, ACallerNamesSoManyAndNoMore) {
  Start({.max_named = 2});
  const auto save = [this](const char* caller, const char* name) {
    return Save(SmallSession(), *EntryOf(caller, name)).code();
  };
  EXPECT_EQ(save("a", "1"), absl::StatusCode::kOk);
  EXPECT_EQ(save("a", "2"), absl::StatusCode::kOk);
  EXPECT_EQ(save("a", "3"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(save("a", "2"), absl::StatusCode::kOk) << "it is there already";
  EXPECT_EQ(save("b", "3"), absl::StatusCode::kOk);
  ASSERT_TRUE(Save(SmallSession(1), KeyOf(1)).ok()) << "of nobody's names";
}

TEST_F(StateKeeperTest, DoneIsCalledOnAThreadWithAName) {
  Start();
  std::string name(16, '\0');
  keeper_->Load(
      "x", [&name](const auto&) { pthread_getname_np(pthread_self(), name.data(), name.size()); });
  keeper_->Flush();
  EXPECT_STREQ(name.c_str(), "luna-files");
}

TEST_F(StateKeeperTest, OfOneSessionTheLatestIsWrittenOnce) {
  Start();
  KeepBusy();
  for (const char* label : {"one", "two", "three"}) keeper_->AutoSave(Labelled(1, label));
  keeper_->AutoSave(Labelled(2, "another's"));
  LetGo();
  keeper_->Flush();
  EXPECT_EQ(keeper_->counts().written, 2u);
  EXPECT_EQ(keeper_->counts().replaced, 2u);
  EXPECT_EQ(LabelOf(1), "three");
  EXPECT_EQ(LabelOf(2), "another's");
}

TEST_F(StateKeeperTest, TheOrderOfOneSessionIsKept) {
  Start();
  keeper_->AutoSave(Labelled(1, "before"));
  keeper_->AutoSave(Labelled(2, "before"));
  keeper_->Flush();
  KeepBusy();
  keeper_->AutoSave(Labelled(1, "closed"));
  Remove(KeyOf(1));
  Remove(KeyOf(2));
  keeper_->AutoSave(Labelled(2, "restored"));
  keeper_->AutoSave(Labelled(3, "new"));
  Remove(KeyOf(3));
  keeper_->AutoSave(Labelled(3, "again"));
  Remove(KeyOf(3));
  LetGo();
  EXPECT_EQ(LabelOf(1), "NOT_FOUND");
  EXPECT_EQ(LabelOf(2), "restored");
  EXPECT_EQ(LabelOf(3), "NOT_FOUND");
  EXPECT_EQ(keeper_->counts().written, 6u);
  EXPECT_EQ(keeper_->counts().removed, 4u);
}

TEST_F(StateKeeperTest, NothingIsMovedAcrossWhatSomebodyWaitsFor) {
  Start();
  KeepBusy();
  const std::string key = KeyOf(1);
  std::vector<std::string> seen;
  const auto see = [&](absl::StatusOr<engine::SavedSession> session) {
    seen.push_back(session.ok() ? session->label : "none");
  };
  keeper_->Load(key, see);
  keeper_->AutoSave(Labelled(1, "a"));
  keeper_->Load(key, see);
  keeper_->AutoSave(Labelled(1, "b"));
  keeper_->AutoSave(Labelled(1, "c"));
  keeper_->Load(key, see);
  keeper_->Save(Labelled(1, "d"), key, [](absl::Status) {});
  keeper_->AutoSave(Labelled(1, "e"));
  Remove(key);
  keeper_->Load(key, see);
  keeper_->AutoSave(Labelled(1, "f"));
  keeper_->LoadAll(
      [&](const std::string&, absl::StatusOr<engine::SavedSession> session) {
        see(std::move(session));
        return true;
      },
      [](absl::Status) {});
  keeper_->AutoSave(Labelled(1, "g"));
  LetGo();
  keeper_->Flush();
  EXPECT_THAT(seen, ElementsAre("none", "a", "c", "none", "f"));
  EXPECT_EQ(LabelOf(1), "g");
}

// Any interleaving ends as one after the other would.
TEST_F(StateKeeperTest, RandomOperationsEndAsTheirOrderSays) {
  Start();
  RandomSessions random(11);
  std::vector<std::string> expected(4, "NOT_FOUND");
  for (int round = 0; round < 20; ++round) {
    KeepBusy();
    for (int i = 0; i < 30; ++i) {
      const uint64_t n = random.Below(4);
      switch (random.Below(4)) {
        case 0:
          Remove(KeyOf(n));
          expected[n] = "NOT_FOUND";
          break;
        case 1:
          keeper_->Load(KeyOf(n), [want = expected[n]](const auto& got) {
            EXPECT_EQ(got.ok() ? got->label : "NOT_FOUND", want);
          });
          break;
        default:
          expected[n] = absl::StrCat(round, " ", i);
          keeper_->AutoSave(Labelled(n, expected[n]));
      }
    }
    LetGo();
    for (uint64_t n = 0; n < expected.size(); ++n) EXPECT_EQ(LabelOf(n), expected[n]);
  }
}

TEST_F(StateKeeperTest, ManyThreadsMayAskAtOnce) {
  Start();
  std::vector<std::thread> threads;
  for (uint64_t n = 0; n < 4; ++n) {
    threads.emplace_back([this, n] {
      for (int i = 0; i < 50; ++i) keeper_->AutoSave(Labelled(n, absl::StrCat(i)));
      keeper_->Flush();
      EXPECT_EQ(LabelOf(n), "49");
    });
  }
  for (std::thread& thread : threads) thread.join();
  const KeeperCounts counts = keeper_->counts();
  EXPECT_EQ(counts.written + counts.replaced, 200u);
}

TEST_F(StateKeeperTest, WhatWaitsIsWrittenBeforeTheEnd) {
  Start();
  KeepBusy();
  for (uint64_t n = 0; n < 20; ++n) keeper_->AutoSave(Labelled(n, "kept"));
  LetGo();
  Start();  // ends the one before
  for (uint64_t n = 0; n < 20; ++n) EXPECT_EQ(LabelOf(n), "kept");
}

TEST_F(StateKeeperTest, AfterItsStopItRefuses) {
  Start();
  keeper_->Stop();
  EXPECT_EQ(Save(SmallSession(), "x").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Load("x").status().code(), absl::StatusCode::kUnavailable);
  keeper_->AutoSave(SmallSession());
  EXPECT_EQ(keeper_->counts().failed, 1u);
  keeper_->Flush();
  keeper_->Stop();
}

TEST_F(StateKeeperTest, AFullQueueRefusesWhatIsAwaitedAlone) {
  Start({.max_awaited = 2});
  KeepBusy();
  absl::Status waits, refused;
  keeper_->Save(SmallSession(), "a", [&](absl::Status status) { waits = status; });
  keeper_->Save(SmallSession(), "b", [&](absl::Status status) { refused = status; });
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterOf(refused).has_value());
  keeper_->AutoSave(Labelled(1, "taken"));
  LetGo();
  keeper_->Flush();
  EXPECT_TRUE(waits.ok()) << waits;
  EXPECT_EQ(LabelOf(1), "taken");
  EXPECT_TRUE(Save(SmallSession(), "b").ok());
}

TEST_F(StateKeeperTest, WhatCouldNotBeReadBackIsNotWritten) {
  Start();
  engine::SavedSession session = SmallSession();
  session.turns.back().end = 99;
  const absl::Status status = Save(session, "a");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "turns[1]");
  EXPECT_EQ(Load("a").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StateKeeperTest, NamesAreEntriesAndNoOtherSessionsKeys) {
  Start();
  EXPECT_EQ(FieldOf(Save(SmallSession(1), "../a")), "name");
  EXPECT_EQ(FieldOf(Save(SmallSession(1), "")), "name");
  EXPECT_EQ(FieldOf(Save(SmallSession(1), KeyOf(2))), "name");
  EXPECT_TRUE(Save(SmallSession(1), KeyOf(1)).ok());
  EXPECT_EQ(FieldOf(Load("../a").status()), "name");
  EXPECT_EQ(Load("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StateKeeperTest, AFileUnderAnotherSessionsKeyIsDamage) {
  Start();
  ASSERT_TRUE(Save(SmallSession(1), "a").ok());
  std::filesystem::copy_file(files_.Entry("a"), files_.Entry(KeyOf(2)));
  EXPECT_EQ(Load(KeyOf(2)).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(StateKeeperTest, AllUnderAKeyAreLoadedAndTheDamagedAreLeftAsTheyAre) {
  Start();
  const absl::Time then = absl::FromUnixSeconds(1'700'000'000);
  ASSERT_TRUE(Save(SmallSession(1), KeyOf(1)).ok());
  ASSERT_TRUE(Save(SmallSession(1), "story").ok());
  std::string damaged = EncodeSnapshot(SmallSession(2));
  damaged[70] ^= 1;
  WriteFile(files_.Entry(KeyOf(2)), damaged);
  WriteFile(files_.Entry(KeyOf(3)), "");
  SetModified(files_.Entry(KeyOf(3)), then + absl::Seconds(2));
  SetModified(files_.Entry(KeyOf(1)), then + absl::Seconds(1));
  SetModified(files_.Entry(KeyOf(2)), then);

  std::vector<std::pair<std::string, absl::StatusOr<engine::SavedSession>>> loaded;
  absl::Status done = absl::UnknownError("not called");
  const auto load = [&](size_t most) {
    loaded.clear();
    keeper_->LoadAll(
        [&, most](const std::string& key, absl::StatusOr<engine::SavedSession> session) {
          loaded.emplace_back(key, std::move(session));
          return loaded.size() < most;
        },
        [&](absl::Status status) { done = status; });
    keeper_->Flush();
  };
  load(10);
  ASSERT_TRUE(done.ok()) << done;
  ASSERT_EQ(loaded.size(), 3u);
  EXPECT_EQ(loaded[0].first, KeyOf(3));
  EXPECT_EQ(loaded[0].second.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(loaded[1].first, KeyOf(1));
  ExpectSame(*loaded[1].second, SmallSession(1));
  EXPECT_EQ(loaded[2].second.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(loaded[2].second.status().message()),
              HasSubstr("saved session '000000...': its checksum says"));
  EXPECT_EQ(ReadFile(files_.Entry(KeyOf(2))), damaged);
  EXPECT_EQ(ReadFile(files_.Entry(KeyOf(3))), "");
  load(2);
  EXPECT_EQ(loaded.size(), 2u);
}

TEST_F(StateKeeperTest, OfThoseUnderAKeyTheMostRecentStay) {
  Start({.max_keyed = 2});
  const absl::Time then = absl::FromUnixSeconds(1'700'000'000);
  for (uint64_t n = 0; n < 4; ++n) {
    ASSERT_TRUE(Save(SmallSession(n), KeyOf(n)).ok());
    SetModified(files_.Entry(KeyOf(n)), then + absl::Seconds(n));
  }
  ASSERT_TRUE(Save(SmallSession(1), "aside").ok());
  SetModified(files_.Entry("aside"), then - absl::Hours(1));
  clock_.Advance(KeeperOptions().sweep_interval);
  keeper_->Flush();
  EXPECT_TRUE(Load("aside").ok());
  EXPECT_EQ(LabelOf(1), "NOT_FOUND");
  EXPECT_TRUE(Load(KeyOf(3)).ok());
  EXPECT_TRUE(Load(KeyOf(2)).ok());
  EXPECT_FALSE(Load(KeyOf(0)).ok());
  EXPECT_EQ(keeper_->counts().expired, 2u);
}

TEST_F(StateKeeperTest, EntriesLeaveWhenTheyAreTooOld) {
  Start();
  ASSERT_TRUE(Save(SmallSession(1), "old").ok());
  ASSERT_TRUE(Save(SmallSession(1), "older").ok());
  clock_.Advance(absl::Hours(24));
  SetModified(files_.Entry("old"), clock_.Now() - absl::Minutes(50));
  SetModified(files_.Entry("older"), clock_.Now() - absl::Minutes(61));

  Start({.ttl = absl::Hours(1), .sweep_interval = absl::Minutes(10)});
  EXPECT_EQ(Load("older").status().code(), absl::StatusCode::kNotFound);  // at the start
  EXPECT_TRUE(Load("old").ok());
  clock_.Advance(absl::Minutes(9));
  SetModified(files_.Entry("old"), clock_.Now() - absl::Minutes(61));
  EXPECT_TRUE(Load("old").ok());  // not yet looked at again
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(Load("old").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(keeper_->counts().expired, 2u);
}

TEST_F(StateKeeperTest, WithoutALimitOfAgeEntriesStay) {
  for (const absl::Duration ttl : {absl::ZeroDuration(), absl::InfiniteDuration()}) {
    Start({.ttl = ttl});
    ASSERT_TRUE(Save(SmallSession(1), "a").ok());
    SetModified(files_.Entry("a"), absl::UnixEpoch() - absl::Hours(1));
    clock_.Advance(absl::Hours(24 * 365));
    EXPECT_TRUE(Load("a").ok());
    EXPECT_EQ(keeper_->counts().expired, 0u);
  }
}

// Captures what is logged while it lives.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::move(sink)));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }

  std::string text() const { return lines_.str(); }

 private:
  std::ostringstream lines_;
  const std::shared_ptr<spdlog::logger> before_;
};

TEST_F(StateKeeperTest, FailuresOfOneKindAreCountedAndLoggedOnceInAWhile) {
  CapturedLog log;
  Start();
  std::filesystem::create_directory(files_.Entry(KeyOf(1)));  // no file can take its place
  const auto fail = [this] {
    keeper_->AutoSave(SmallSession(1));
    keeper_->Flush();
  };
  const auto lines = [&log] {
    const std::string text = log.text();
    return std::count(text.begin(), text.end(), '\n');
  };
  for (int i = 0; i < 3; ++i) fail();
  EXPECT_EQ(lines(), 1);
  EXPECT_THAT(log.text(), HasSubstr("saving a session that changed: FAILED_PRECONDITION: writing "
                                    "saved session '000000...'"));
  engine::SavedSession broken = SmallSession(2);
  broken.history.clear();
  keeper_->AutoSave(broken);  // of another kind
  keeper_->Flush();
  EXPECT_EQ(lines(), 2);
  clock_.Advance(kFailureLogInterval);
  fail();
  EXPECT_EQ(lines(), 3);
  EXPECT_THAT(log.text(), HasSubstr("2 more like it since the last line"));
  EXPECT_EQ(keeper_->counts().failed, 5u);
  EXPECT_FALSE(absl::StrContains(log.text(), KeyOf(1)));
}

}  // namespace
}  // namespace luna::state
