// Client and server together, as they are installed: the binaries, the model that comes with them,
// real gRPC on port 0. And the Python example, which needs nothing of ours but the protos.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/client/subprocess.h"
#include "tests/fakes/temp_dir.h"

namespace luna {
namespace {

using testing::HasSubstr;
using testing_support::Subprocess;

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
  nlohmann::json Json() const { return nlohmann::json::parse(out); }
};

Outcome Execute(const std::vector<std::string>& arguments, const std::string& input = "") {
  Subprocess process(arguments);
  process.Write(input);
  Outcome outcome;
  outcome.code = process.Wait();
  outcome.out = process.output();
  outcome.err = process.error();
  return outcome;
}

class LiveTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TempDir>();
    Start();
  }
  static void TearDownTestSuite() {
    Stop();
    directory_.reset();
  }

  static void Start() {
    server_ = std::make_unique<Subprocess>(
        std::vector<std::string>{LUNA_SERVER_BINARY, "--model", "models/luna-tiny", "--listen",
                                 "127.0.0.1:0", "--state-dir", directory_->path() + "/state"});
    const std::string ready = "ready grpc=";
    ASSERT_TRUE(server_->ReadUntil(ready) && server_->ReadUntil("\n"));
    const size_t begin = server_->output().find(ready) + ready.size();
    address_ = server_->output().substr(begin, server_->output().find(' ', begin) - begin);
  }
  static void Stop() {
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0) << server_->error();
    server_.reset();
  }

  static Outcome Luna(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), LUNA_BINARY);
    arguments.insert(arguments.end(), {"--server", address_});
    return Execute(arguments, input);
  }

  // The id of a session with one turn.
  static std::string Chat() {
    const Outcome chat = Luna({"chat", "--keep", "--max-tokens", "8"}, "Once upon a time,\n");
    EXPECT_EQ(chat.code, 0) << chat.err;
    const std::string before = "session ";
    const size_t at = chat.out.rfind(before);
    EXPECT_NE(at, std::string::npos);
    return FirstLine(chat.out.substr(at + before.size()));
  }
  static std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }
  static nlohmann::json Speak(const std::string& id, const std::string& text) {
    return Luna({"generate", "--json", "--seed", "3", "--max-tokens", "12", "--session", id, text})
        .Json();
  }

  static std::unique_ptr<TempDir> directory_;
  static std::unique_ptr<Subprocess> server_;
  static std::string address_;
};

std::unique_ptr<TempDir> LiveTest::directory_;
std::unique_ptr<Subprocess> LiveTest::server_;
std::string LiveTest::address_;

TEST_F(LiveTest, TheSameSeedTellsTheSameStory) {
  const std::vector<std::string> command = {
      "generate", "--json", "--seed", "7", "--max-tokens", "24", "옛날 옛적에 작은 마을에"};
  const auto first = Luna(command).Json();
  const auto second = Luna(command).Json();
  EXPECT_EQ(first["text"], second["text"]);
  EXPECT_EQ(first["token_ids"], second["token_ids"]);
  EXPECT_EQ(first["seed"], 7);
  EXPECT_EQ(first["usage"]["completion_tokens"], first["token_ids"].size());
}

TEST_F(LiveTest, ASessionKeepsItsCacheBetweenTurns) {
  const std::string id = Chat();
  const auto turn =
      Luna({"generate", "--json", "--max-tokens", "4", "--session", id, " Then"}).Json();
  EXPECT_GT(turn["usage"]["cached_tokens"], 0);
  EXPECT_EQ(turn["turn"], 2);
  const auto show = Luna({"sessions", "show", id, "--json"}).Json();
  EXPECT_EQ(show["turn"], 2);
  EXPECT_GT(show["memory"]["charged_bytes"], 0);
  EXPECT_THAT(Luna({"sessions", "list"}).out, HasSubstr(id));
  EXPECT_EQ(Luna({"sessions", "close", id}).code, 0);
  EXPECT_EQ(Luna({"sessions", "show", id}).code, 1);
}

TEST_F(LiveTest, AForkGoesItsOwnWayFromATurn) {
  const std::string id = Chat();
  const auto said = Speak(id, " Then");
  const Outcome forked = Luna({"sessions", "fork", id, "--at-turn", "1"});
  ASSERT_EQ(forked.code, 0) << forked.err;
  const std::string fork = FirstLine(forked.out);
  EXPECT_NE(fork, id);
  const auto again = Speak(fork, " Then");
  EXPECT_EQ(again["text"], said["text"]) << "the same history and seed";
  EXPECT_EQ(Luna({"sessions", "show", id, "--json"}).Json()["turn"], 2);
  EXPECT_EQ(Luna({"sessions", "close", fork}).code, 0);
  EXPECT_EQ(Luna({"sessions", "close", id}).code, 0);
}

TEST_F(LiveTest, ThreeContinuationsOfOnePrompt) {
  const auto answers = Luna({"generate", "--json", "--n", "3", "--seed", "5", "--max-tokens", "16",
                             "옛날 옛적에 작은 마을에"})
                           .Json()["continuations"];
  ASSERT_EQ(answers.size(), 3u);
  std::set<std::string> texts;
  for (const auto& answer : answers) texts.insert(answer["text"]);
  EXPECT_EQ(texts.size(), 3u);
}

TEST_F(LiveTest, ASessionIsCarriedInAFileAndSetAsideUnderAName) {
  const std::string id = Chat();
  const std::string file = directory_->path() + "/fox.session";
  ASSERT_EQ(Luna({"sessions", "save", id, "--file", file}).code, 0);
  ASSERT_EQ(Luna({"sessions", "save", id, "--name", "fox"}).code, 0);
  const auto said = Speak(id, " Then");
  for (const std::vector<std::string>& from :
       {std::vector<std::string>{"--file", file}, {"--name", "fox"}}) {
    ASSERT_EQ(Luna({"sessions", "close", id}).code, 0);
    const Outcome restored = Luna({"sessions", "restore", from[0], from[1]});
    ASSERT_EQ(restored.code, 0) << restored.err;
    EXPECT_EQ(FirstLine(restored.out), id);
    EXPECT_EQ(Speak(id, " Then")["text"], said["text"]);
  }
  const Outcome lives = Luna({"sessions", "restore", "--file", file});
  EXPECT_EQ(lives.code, 1);
  EXPECT_THAT(lives.err, HasSubstr("lives"));
  EXPECT_EQ(Luna({"sessions", "close", id}).code, 0);
}

TEST_F(LiveTest, ASessionOutlivesItsServer) {
  const std::string id = Chat();
  const auto before = Luna({"sessions", "show", id, "--json"}).Json();
  Stop();
  Start();
  const auto after = Luna({"sessions", "show", id, "--json"}).Json();
  EXPECT_EQ(after["turn"], 1);
  EXPECT_EQ(after["tokens"], before["tokens"]);
  EXPECT_EQ(Luna({"sessions", "close", id}).code, 0);
}

TEST_F(LiveTest, AWrongParameterIsNamed) {
  const Outcome outcome = Luna({"generate", "--temperature", "-1", "x"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("temperature"));
  EXPECT_THAT(outcome.err, HasSubstr("-1"));
}

TEST_F(LiveTest, HealthModelAndLedger) {
  EXPECT_EQ(Luna({"health"}).code, 0);
  EXPECT_EQ(Luna({"health", "--service", "luna.v1.InferenceService"}).code, 0);
  EXPECT_EQ(Luna({"model", "--json"}).Json()["name"], "luna-tiny");
  EXPECT_EQ(Luna({"admin", "check"}).code, 0);
}

TEST_F(LiveTest, AClassComesAndGoes) {
  const Outcome outcome = Luna({"classroom", "--students", "10", "--turns", "2", "--max-tokens",
                                "24", "--think-time", "0", "--arrive-over", "0"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("10 students, 20 answers"));
  const auto top = Luna({"top", "--once", "--json"}).Json();
  EXPECT_EQ(top["pool"]["charged_blocks"], 0);
  EXPECT_EQ(top["sessions"].size(), 0u);
  EXPECT_EQ(Luna({"admin", "check"}).code, 0);
}

TEST_F(LiveTest, AFullContextIsStartedAnew) {
  const Outcome outcome = Luna({"classroom", "--students", "1", "--turns", "12", "--max-tokens",
                                "400", "--think-time", "0"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("12 answers"));
  EXPECT_THAT(outcome.out, HasSubstr("starts anew"));
}

TEST_F(LiveTest, BenchGetsEveryToken) {
  const Outcome outcome = Luna({"bench", "--clients", "4", "--prompt-tokens", "16", "--max-tokens",
                                "8", "--rounds", "1", "--warmup", "0", "--json", "/dev/stdout"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("32 tokens"));
  EXPECT_THAT(outcome.out, HasSubstr("\"errors\": 0"));
}

TEST_F(LiveTest, ThePythonExample) {
  const Outcome outcome = Execute({"/usr/bin/python3", "client/python/luna_example.py", address_});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("luna-tiny: 512 tokens of context"));
  EXPECT_THAT(outcome.out, HasSubstr("bytes of cache"));
}

}  // namespace
}  // namespace luna
