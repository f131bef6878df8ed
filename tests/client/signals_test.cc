// The luna binary and signals: what ends it, how, and that it leaves no session behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/client/luna_command.h"

namespace luna {
namespace {

using testing::HasSubstr;
using testing_support::CliWithServerTest;
using testing_support::Subprocess;

using SignalsTest = CliWithServerTest;

TEST_F(SignalsTest, CtrlCCancelsGenerate) {
  StartEndless();
  Subprocess process(Command({"generate", "x"}));
  ASSERT_TRUE(process.ReadUntil("w5 "));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_THAT(process.error(), HasSubstr("Cancelled"));
}

// One stream carries them all, and it ends.
TEST_F(SignalsTest, CtrlCCancelsEveryContinuation) {
  StartEndless();
  Subprocess process(Command({"generate", "--n", "3", "x"}));
  ASSERT_TRUE(process.ReadUntil("-- 1 of 3 --\nw1 w2 w3 "));  // the first is shown as it comes
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_THAT(process.error(), HasSubstr("Cancelled"));
  EXPECT_THAT(process.output(), testing::EndsWith(" \n"));
  EXPECT_THAT(process.output(), testing::Not(HasSubstr("-- 2 of 3")));
  EXPECT_EQ(server_->seen().cancelled_streams, 1);
}

TEST_F(SignalsTest, CtrlCStopsTheAnswerAndNotTheChat) {
  StartEndless();
  Subprocess process(Command({"chat"}));
  process.Write("tell me everything\n");
  ASSERT_TRUE(process.ReadUntil("w5 "));
  process.Signal(SIGINT);
  process.Write("/memory\n");
  ASSERT_TRUE(process.ReadUntil("quota"));
  EXPECT_EQ(process.Wait(), 0) << process.error();
  const fake::Seen seen = server_->seen();
  ASSERT_EQ(seen.aborts.size(), 1u);
  EXPECT_TRUE(seen.aborts[0].keep_partial());
  EXPECT_EQ(seen.sessions_closed, 1);
}

TEST_F(SignalsTest, CtrlCEndsTopInPeace) {
  Start();
  Subprocess process(Command({"top", "--interval", "0.05"}));
  ASSERT_TRUE(process.ReadUntil("SESSION"));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 0);
}

class EndingSignalTest : public CliWithServerTest, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override { std::signal(SIGHUP, SIG_DFL); }  // the suite itself may run under nohup
};

TEST_P(EndingSignalTest, ClosesTheSessionOfAChatThatWaits) {
  Start();
  Subprocess process(Command({"chat"}));
  process.Write("hello\n");
  ASSERT_TRUE(process.ReadUntil("w20 \n"));  // the whole answer
  process.Signal(GetParam());
  EXPECT_EQ(process.WaitWithInputOpen(), 1);
  EXPECT_THAT(process.error(), HasSubstr("ended the chat"));
  EXPECT_EQ(server_->open_sessions(), 0);
}

TEST_P(EndingSignalTest, ClosesTheSessionOfAClass) {
  StartEndless();
  Subprocess process(Command({"classroom", "--students", "5", "--arrive-over", "0"}));
  ASSERT_TRUE(process.ReadUntil("writing"));
  process.Signal(GetParam());
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_THAT(process.output(), HasSubstr("The class was stopped"));
  EXPECT_EQ(server_->open_sessions(), 0);
}

INSTANTIATE_TEST_SUITE_P(Signals, EndingSignalTest, testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST_F(SignalsTest, TerminationDuringAnAnswerClosesTheSessionToo) {
  StartEndless();
  Subprocess process(Command({"chat"}));
  process.Write("tell me everything\n");
  ASSERT_TRUE(process.ReadUntil("w5 "));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.WaitWithInputOpen(), 1);
  EXPECT_THAT(process.error(), HasSubstr("SIGTERM ended the chat"));
  EXPECT_EQ(server_->open_sessions(), 0);
}

TEST_F(SignalsTest, TerminationKeepsASessionThatIsToBeKept) {
  Start();
  Subprocess process(Command({"chat", "--keep"}));
  process.Write("hello\n");
  ASSERT_TRUE(process.ReadUntil("w20 \n"));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.WaitWithInputOpen(), 1);
  EXPECT_THAT(process.output(), HasSubstr("session session-1"));
  EXPECT_EQ(server_->open_sessions(), 1);
}

// One SIGUSR1 from outside ended the thread that listens, and nothing could stop the program.
TEST_F(SignalsTest, AForeignUserSignalDoesNotMakeItDeaf) {
  StartEndless();
  Subprocess process(Command({"classroom", "--students", "2", "--arrive-over", "0"}));
  ASSERT_TRUE(process.ReadUntil("writing"));
  process.Signal(SIGUSR1);
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 128 + SIGUSR1);  // as any program that does not know it
}

TEST_F(SignalsTest, AnIgnoredHangUpStaysIgnored) {
  Start();
  std::signal(SIGHUP, SIG_IGN);  // as under nohup
  Subprocess process(Command({"chat"}));
  std::signal(SIGHUP, SIG_DFL);
  process.Write("hello\n");
  ASSERT_TRUE(process.ReadUntil("w20 \n"));
  process.Signal(SIGHUP);
  process.Write("again\n");
  EXPECT_EQ(process.Wait(), 0) << process.error();
  EXPECT_EQ(server_->seen().generates.size(), 2u);
}

}  // namespace
}  // namespace luna
