// The luna binary on a terminal: what it does with keys, and that it gives the terminal back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/client/luna_command.h"
#include "tests/client/terminal_process.h"

namespace luna {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::CliWithServerTest;
using testing_support::TerminalProcess;

constexpr char kGivenBack[] = "\x1b[?1049l";

class TerminalTest : public CliWithServerTest {
 protected:
  void SetUp() override { std::signal(SIGHUP, SIG_DFL); }  // the suite itself may run under nohup
};

TEST_F(TerminalTest, TopKeepsKeysOutOfThePictureAndEndsByQ) {
  Start();
  TerminalProcess top(Command({"top"}));
  ASSERT_TRUE(top.ReadUntil("SESSION"));
  EXPECT_FALSE(top.echoes());
  EXPECT_FALSE(top.waits_for_lines());
  // Clearing after a full row would clear its last character.
  EXPECT_THAT(top.shown(), Not(HasSubstr("\x1b[K\r\n")));
  top.Type("xyz");
  top.Type("q");
  ASSERT_TRUE(top.ReadUntil(kGivenBack));
  EXPECT_EQ(top.Wait(), 0);
  EXPECT_TRUE(top.echoes());
  EXPECT_TRUE(top.waits_for_lines());
  EXPECT_THAT(top.shown(), Not(HasSubstr("xyz")));
}

TEST_F(TerminalTest, EverySignalThatEndsTopGivesTheTerminalBack) {
  Start();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    TerminalProcess top(Command({"top"}));
    ASSERT_TRUE(top.ReadUntil("SESSION"));
    top.Signal(signal);
    ASSERT_TRUE(top.ReadUntil(kGivenBack)) << signal;
    EXPECT_EQ(top.Wait(), 0) << signal;
    EXPECT_TRUE(top.echoes()) << signal;
  }
}

TEST_F(TerminalTest, AClassGivesTheTerminalBack) {
  StartEndless();
  TerminalProcess room(Command({"classroom", "--students", "3", "--arrive-over", "0"}));
  ASSERT_TRUE(room.ReadUntil("writing"));
  EXPECT_FALSE(room.echoes());
  room.Type("\x03");  // Ctrl-C is still the terminal's
  ASSERT_TRUE(room.ReadUntil("The class was stopped"));
  ASSERT_TRUE(room.ReadUntil("luna: "));
  EXPECT_EQ(room.Wait(), 1);
  EXPECT_TRUE(room.echoes());
  EXPECT_EQ(server_->open_sessions(), 0);
}

TEST_F(TerminalTest, GenerateSaysThatItWaits) {
  Start();
  TerminalProcess generate(Command({"generate", "--max-tokens", "2"}));
  ASSERT_TRUE(generate.ReadUntil("Ctrl-D"));
  generate.Type("Once upon\n\x04");
  ASSERT_TRUE(generate.ReadUntil("w1 w2"));
  EXPECT_EQ(generate.Wait(), 0);
  EXPECT_EQ(server_->seen().generates.at(0).text(), "Once upon\n");
}

TEST_F(TerminalTest, ChatPromptsAndEndsByCtrlD) {
  Start();
  TerminalProcess chat(Command({"chat"}));
  ASSERT_TRUE(chat.ReadUntil("\n> "));
  chat.Type("\x03");
  ASSERT_TRUE(chat.ReadUntil("(Ctrl-D ends the chat)"));
  chat.Type("hello\n");
  ASSERT_TRUE(chat.ReadUntil("w20"));
  ASSERT_TRUE(chat.ReadUntil("20 tokens"));
  chat.Type("\x04");
  EXPECT_EQ(chat.Wait(), 0);
  EXPECT_EQ(server_->open_sessions(), 0);
}

}  // namespace
}  // namespace luna
