// The program itself: what it prints, how it leaves.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using Event = v1::GenerateEvent;

// luna-server as a child process, killed at the end if it still runs.
class Process {
 public:
  explicit Process(std::vector<std::string> flags) {
    std::array<int, 2> out;
    std::array<int, 2> err;
    EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(err.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    flags.insert(flags.begin(), LUNA_SERVER_BINARY);
    std::vector<char*> argv;
    for (std::string& flag : flags) argv.push_back(flag.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    out_ = fdopen(out[0], "r");
    err_ = fdopen(err[0], "r");
  }
  ~Process() {
    if (pid_ > 0) Signal(SIGKILL), Wait();
    fclose(out_);
    fclose(err_);
  }

  // The next line of standard output, without its end; empty at the end.
  std::string ReadLine() { return Line(out_); }
  std::string ReadRest() { return Rest(out_); }
  std::string ReadErrors() { return Rest(err_); }
  void Signal(int signal) { kill(pid_, signal); }
  // The exit status; -signal if a signal ended it.
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Of the line it prints when it is ready.
  std::string WaitUntilReady() {
    const std::string line = ReadLine();
    EXPECT_THAT(line, MatchesRegex("ready grpc=127\\.0\\.0\\.1:[0-9]+ model=[^ ]+"));
    return line.substr(11, line.find(" model=") - 11);
  }

 private:
  static std::string Line(FILE* file) {
    std::string line;
    for (int c = fgetc(file); c != EOF && c != '\n'; c = fgetc(file)) line.push_back(c);
    return line;
  }
  static std::string Rest(FILE* file) {
    std::string text;
    for (int c = fgetc(file); c != EOF; c = fgetc(file)) text.push_back(c);
    return text;
  }

  pid_t pid_ = 0;
  FILE* out_ = nullptr;
  FILE* err_ = nullptr;
};

TEST(ProcessTest, ServesUntilSigtermAndLetsLiveAnswersFinish) {
  Process process({"--model", kSlowModel, "--listen", "127.0.0.1:0", "--threads", "1"});
  Client client(process.WaitUntilReady());
  v1::GenerateRequest request = LongRequest();
  request.mutable_stopping()->set_max_tokens(60);
  Stream stream(client, request);
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  process.Signal(SIGTERM);
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.token_ids.size(), 60u);
  EXPECT_EQ(process.ReadRest(), "");
  const std::string log = process.ReadErrors();
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(log, AllOf(HasSubstr("sessions of full context"), HasSubstr("start "),
                         HasSubstr("end "), HasSubstr("draining")));
}

TEST(ProcessTest, TheDrainTimeoutEndsWhatIsStillLive) {
  Process process({"--model", kSlowModel, "--listen", "127.0.0.1:0", "--threads", "1",
                   "--drain-timeout", "0s"});
  Client client(process.WaitUntilReady());
  Stream stream(client, LongRequest());
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  process.Signal(SIGINT);
  stream.Finish();
  ASSERT_TRUE(stream.error.has_value());
  EXPECT_EQ(stream.error->code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(process.Wait(), 0);
}

TEST(ProcessTest, ASecondSignalEndsAtOnce) {
  Process process({"--model", kSlowModel, "--listen", "127.0.0.1:0", "--threads", "1"});
  Client client(process.WaitUntilReady());
  Stream stream(client, LongRequest());
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  process.Signal(SIGTERM);
  grpc::health::v1::HealthCheckResponse::ServingStatus status;
  do {
    status = Health(client);
  } while (status == grpc::health::v1::HealthCheckResponse::SERVING);
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 128 + SIGTERM);
  EXPECT_FALSE(stream.Finish().ok());
}

// The end once overtook the first tasks of the writer thread, and gRPC aborted.
TEST(ProcessTest, ASignalRightAfterTheReadyLineIsAnOrderlyEnd) {
  for (int i = 0; i < 30; ++i) {
    Process process({"--model", kTinyModel, "--listen", "127.0.0.1:0", "--threads", "1"});
    process.WaitUntilReady();
    process.Signal(SIGTERM);
    EXPECT_EQ(process.Wait(), 0) << process.ReadErrors();
  }
}

TEST(ProcessTest, PromptsAndAnswersAreNotLogged) {
  Process process({"--model", kTinyModel, "--listen", "127.0.0.1:0", "--log-level", "trace"});
  Client client(process.WaitUntilReady());
  v1::GenerateRequest request = TextRequest("private words", 8);
  v1::GenerateResponse response;
  EXPECT_TRUE(Unary(client, request, response).ok());
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_EQ(process.ReadErrors().find("private words"), std::string::npos);
}

// Learned positions have as many rows as the model's own context.
TEST(ProcessTest, AShorterContextOfAModelWithLearnedPositions) {
  Process process({"--model", "models/luna-tiny", "--listen", "127.0.0.1:0", "--context", "64"});
  Client client(process.WaitUntilReady());
  v1::GenerateRequest request;
  request.set_text("옛날 옛적에");
  request.mutable_stopping()->set_ignore_eos(true);
  v1::GenerateResponse response;
  ASSERT_TRUE(Unary(client, request, response).ok());
  EXPECT_EQ(
      response.finished().usage().prompt_tokens() + response.finished().usage().completion_tokens(),
      64u);
}

// Another's SIGUSR1 ended the thread that waits for signals, and nothing stopped the server.
TEST(ProcessTest, AStraySignalLeavesItStoppable) {
  Process process({"--model", kTinyModel, "--listen", "127.0.0.1:0"});
  process.WaitUntilReady();
  process.Signal(SIGUSR1);
  process.Signal(SIGHUP);
  EXPECT_EQ(process.Wait(), 0);
}

TEST(ProcessTest, WrongUsageIsExitTwoAndFailureIsExitOne) {
  struct Case {
    std::vector<std::string> flags;
    int code;
    std::vector<std::string> says;
  };
  const TestServer busy(OptionsFor(kTinyModel));
  const Case cases[] = {
      {{}, 2, {"--model"}},
      {{"--model", kTinyModel, "--block-tokens", "0"}, 2, {"--block-tokens", "'0'", "[1, 1024]"}},
      {{"--model", kTinyModel, "--listen", "0.0.0.0:0"}, 2, {"0.0.0.0:0", "--allow-remote"}},
      {{"--model", kTinyModel, "--listen", "127.0.0.1:0", "--context", "97"},
       2,
       {"--context", "97", "96"}},
      {{"--model", kTinyModel, "--listen", "127.0.0.1:0", "--kv-cache-bytes", "100"},
       2,
       {"--kv-cache-bytes", "100"}},
      {{"--model", kTinyModel, "--listen", "127.0.0.1:0", "--session-quota-bytes", "100"},
       2,
       {"--session-quota-bytes", "100"}},
      {{"--model", kTinyModel, "--session-idle-timeout", "-1s"},
       2,
       {"--session-idle-timeout", "-1s"}},
      {{"--model", "no/such/model", "--listen", "127.0.0.1:0"}, 1, {"no/such/model"}},
      {{"--model", kTinyModel, "--listen", busy.AddressAt("127.0.0.1")},
       1,
       {busy.AddressAt("127.0.0.1")}},
  };
  for (const Case& c : cases) {
    Process process(c.flags);
    const std::string errors = process.ReadErrors();
    EXPECT_EQ(process.ReadRest(), "");
    EXPECT_EQ(process.Wait(), c.code) << errors;
    for (const std::string& word : c.says) EXPECT_THAT(errors, HasSubstr(word));
  }
}

TEST(ProcessTest, HelpAndVersionAreOnStandardOutput) {
  Process help({"--help"});
  EXPECT_THAT(help.ReadRest(), HasSubstr("--kv-cache-bytes"));
  EXPECT_EQ(help.Wait(), 0);
  Process version({"--version"});
  EXPECT_THAT(version.ReadLine(), StartsWith("luna-server "));
  EXPECT_EQ(version.Wait(), 0);
}

TEST(ProcessTest, OtherMachinesAreToldWhereItIs) {
  Process process({"--model", kTinyModel, "--listen", "0.0.0.0:0", "--allow-remote"});
  EXPECT_THAT(process.ReadLine(), MatchesRegex("ready grpc=0\\.0\\.0\\.0:[0-9]+ model=tiny-gpt2"));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  const std::string log = process.ReadErrors();
  for (const std::string& host : server::ReachableHosts()) {
    EXPECT_THAT(log, HasSubstr("a class reaches it at "));
    EXPECT_THAT(log, HasSubstr(host));
  }
}

TEST(ProcessTest, TheSameWordsWithoutACache) {
  std::string texts[2];
  for (const bool cached : {true, false}) {
    std::vector<std::string> flags = {"--model", kTinyModel, "--listen", "127.0.0.1:0"};
    if (!cached) flags.push_back("--no-kv-cache");
    Process process(flags);
    Client client(process.WaitUntilReady());
    v1::GenerateRequest request = TextRequest("a", 40);
    request.mutable_sampling()->set_seed(9);
    v1::GenerateResponse response;
    ASSERT_TRUE(Unary(client, request, response).ok());
    texts[cached] = response.text();
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_FALSE(texts[0].empty());
}

}  // namespace
}  // namespace luna::integration
