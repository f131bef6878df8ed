// The luna binary where it is used wrongly, and where what it writes cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing::Not;
using testing::StartsWith;
using testing_support::CliWithServerTest;
using testing_support::Luna;
using testing_support::Outcome;

TEST(UsageTest, WrongUsageIsTwoAndHelpIsZero) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"sessions"},
      {"sessions", "show"},
      {"generate", "--temperature", "warm", "x"},
      {"generate", "--logit-bias", "7", "x"},
      {"generate", "--logprobs", "2", "x"},
      {"generate", "--system", "s", "--session", "i", "x"},
      {"generate", "--n", "2", "--session", "i", "x"},
      {"bench", "--clients", "0"},
      {"classroom", "--students", "-3"}};
  for (const auto& arguments : wrong) {
    const Outcome outcome = Luna(arguments);
    EXPECT_EQ(outcome.code, 2) << (arguments.empty() ? "" : arguments[0]);
    EXPECT_THAT(outcome.err, Not(IsEmpty()));
  }
  for (const char* command :
       {"generate", "chat", "sessions", "top", "classroom", "bench", "model", "health", "admin"}) {
    EXPECT_EQ(Luna({command, "--help"}).code, 0) << command;
  }
}

TEST(UsageTest, NamesACommandThatThereIsNot) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"fly"}, std::vector<std::string>{"sessions", "fly"}}) {
    const Outcome outcome = Luna(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("no command fly\n"));
  }
  EXPECT_THAT(Luna({"--fly"}).err, HasSubstr("no option --fly\n"));
}

TEST(UsageTest, TellsItsVersion) {
  const Outcome outcome = Luna({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::MatchesRegex("luna [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(UsageTest, WholeNumbersAreTakenStrictly) {
  const std::vector<std::vector<std::string>> commands = {{"generate", "x", "--seed"},
                                                          {"generate", "x", "--max-tokens"},
                                                          {"generate", "x", "--min-tokens"},
                                                          {"generate", "x", "--top-k"},
                                                          {"generate", "x", "--stop-id"},
                                                          {"generate", "x", "--n"},
                                                          {"generate", "x", "--json", "--logprobs"},
                                                          {"chat", "--seed"},
                                                          {"bench", "--seed"},
                                                          {"bench", "--rounds"},
                                                          {"classroom", "--seed"},
                                                          {"classroom", "--max-tokens"},
                                                          {"classroom", "--students"}};
  for (const auto& command : commands) {
    for (const char* value : {"-5", "99999999999999999999999", "0x10", "1.5", "ten", ""}) {
      std::vector<std::string> arguments = command;
      arguments.push_back(value);
      const Outcome outcome = Luna(arguments);
      EXPECT_EQ(outcome.code, 2) << command[0] << " " << command.back() << " " << value;
      EXPECT_THAT(outcome.err, HasSubstr("is not a whole number from"));
    }
  }
}

TEST(UsageTest, ContinuationsAreFromOneToSixtyFour) {
  for (const char* n : {"0", "65"}) {
    const Outcome outcome = Luna({"generate", "x", "--n", n});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err,
                HasSubstr("--n: '" + std::string(n) + "' is not a whole number from 1 to 64"));
  }
}

TEST(UsageTest, AddressesAreTakenStrictly) {
  for (const char* address :
       {"nowhere", "host:99999", "host:0", "host:", "host:+1", "host: 1", ":50051", "::1:50051",
        "http://host:1", "dns:///host:1", "[::1]", "[host]:1", "[::1:1", "user@host:1", "a b:1"}) {
    const Outcome outcome = Luna({"health", "--server", address});
    EXPECT_EQ(outcome.code, 2) << address;
    EXPECT_THAT(outcome.err, HasSubstr("is not HOST:PORT")) << address;
  }
  for (const char* address : {"127.0.0.1:1", "localhost:1", "[::1]:1"}) {
    EXPECT_EQ(Luna({"health", "--server", address}).code, 1) << address;
  }
}

TEST(UsageTest, NoServerIsOne) {
  const Outcome outcome = Luna({"model", "--server", "127.0.0.1:1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("luna: Unavailable"));
}

using OutputTest = CliWithServerTest;

TEST_F(OutputTest, AFileThatCannotBeWrittenIsToldBeforeTheWork) {
  Start();
  const Outcome bench = Run({"bench", "--json", "/no/such/directory/bench.json"});
  EXPECT_EQ(bench.code, 1);
  EXPECT_EQ(bench.err,
            "luna: Not found: cannot write /no/such/directory/bench.json: No such file or "
            "directory\n");
  const Outcome room = Run({"classroom", "--report", "/dev/null/report"});
  EXPECT_EQ(room.code, 1);
  EXPECT_THAT(room.err, HasSubstr("cannot make the directory /dev/null/report: Not a directory"));
  EXPECT_THAT(room.err, Not(HasSubstr("--server")));
  EXPECT_THAT(server_->seen().generates, IsEmpty());
  EXPECT_EQ(server_->seen().sessions_created, 0);
}

TEST_F(OutputTest, WhatWasInTheFileGoesOnlyWhenThereIsSomethingNew) {
  const TempDir directory;
  const std::string path = directory.Write("bench.json", "a long old content, not JSON at all");
  Luna({"bench", "--json", path, "--server", "127.0.0.1:1"});
  EXPECT_EQ(std::filesystem::file_size(path), 35u);
  Start();
  EXPECT_EQ(Run({"bench", "--clients", "1", "--prompt-tokens", "1", "--max-tokens", "1", "--rounds",
                 "1", "--warmup", "0", "--json", path})
                .code,
            0);
  std::ifstream file(path);
  const std::string content(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(content, StartsWith("{\n"));
  EXPECT_THAT(content, EndsWith("}\n"));
}

// Every command that prints, with its output on a disk that is full.
TEST_F(OutputTest, AFullDiskIsAnError) {
  Start();
  for (const std::string command :
       {"generate x", "generate --json x", "top --once", "top --json", "model", "health",
        "sessions list --json", "classroom --students 1 --think-time 0", "--help"}) {
    const std::string line = std::string(LUNA_BINARY) + " " + command + " > /dev/full";
    testing_support::Subprocess shell(
        {"/usr/bin/env", "LUNA_SERVER=" + server_->address(), "/bin/sh", "-c", line});
    EXPECT_EQ(shell.Wait(), 1) << command;
    EXPECT_EQ(shell.error(), "luna: cannot write to standard output\n") << command;
  }
}

}  // namespace
}  // namespace luna
