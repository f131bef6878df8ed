// The luna binary as its users see it: what each command asks and prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/client/luna_command.h"
#include "tests/fakes/temp_dir.h"

namespace luna {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_support::CliWithServerTest;
using testing_support::Outcome;

TEST_F(CliWithServerTest, GenerateStreamsWordsOrTakesStandardInput) {
  Start();
  const Outcome outcome = Run({"generate", "Once", "upon", "--max-tokens", "3"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "w1 w2 w3 \n");
  EXPECT_EQ(Run({"generate", "--max-tokens", "1"}, "옛날 옛적에\n").code, 0);
  const auto seen = server_->seen().generates;
  EXPECT_EQ(seen[0].text(), "Once upon");
  EXPECT_EQ(seen[1].text(), "옛날 옛적에\n");
  EXPECT_FALSE(seen[1].sampling().has_temperature());
}

TEST_F(CliWithServerTest, GenerateSendsEveryFlag) {
  Start();
  const Outcome outcome = Run({"generate",
                               "--temperature",
                               "0",
                               "--top-k",
                               "40",
                               "--top-p",
                               "0.9",
                               "--min-p",
                               "0.05",
                               "--repetition-penalty",
                               "1.1",
                               "--presence-penalty",
                               "-0.5",
                               "--frequency-penalty",
                               "0.25",
                               "--logit-bias",
                               "5=-2.5",
                               "--logit-bias",
                               "6=3",
                               "--seed",
                               "18446744073709551615",
                               "--max-tokens",
                               "9",
                               "--min-tokens",
                               "2",
                               "--stop",
                               "끝",
                               "--stop",
                               "end",
                               "--stop-id",
                               "3",
                               "--ignore-eos",
                               "--json",
                               "--logprobs",
                               "4",
                               "hello",
                               "there"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const v1::GenerateRequest request = server_->seen().generates.at(0);
  EXPECT_EQ(request.text(), "hello there");
  EXPECT_TRUE(request.sampling().has_temperature());
  EXPECT_EQ(request.sampling().temperature(), 0);
  EXPECT_EQ(request.sampling().top_k(), 40u);
  EXPECT_FLOAT_EQ(request.sampling().presence_penalty(), -0.5f);
  EXPECT_EQ(request.sampling().logit_bias_size(), 2);
  EXPECT_EQ(request.sampling().logit_bias(0).token_id(), 5u);
  EXPECT_FLOAT_EQ(request.sampling().logit_bias(0).bias(), -2.5f);
  EXPECT_EQ(request.sampling().seed(), UINT64_MAX);
  EXPECT_EQ(request.stopping().max_tokens(), 9u);
  EXPECT_EQ(request.stopping().min_tokens(), 2u);
  EXPECT_EQ(request.stopping().stop(1), "end");
  EXPECT_EQ(request.stopping().stop_ids(0), 3u);
  EXPECT_TRUE(request.stopping().ignore_eos());
  EXPECT_EQ(request.response_options().logprobs(), 4u);
}

TEST_F(CliWithServerTest, GenerateJsonHasItsShape) {
  Start();
  const Outcome outcome =
      Run({"generate", "--json", "--max-tokens", "2", "--logprobs", "0", "--seed", "5", "hi"});
  ASSERT_EQ(outcome.code, 0);
  const auto json = outcome.Json();
  EXPECT_EQ(json["text"], "w1 w2 ");
  EXPECT_EQ(json["token_ids"], (std::vector<int>{101, 102}));
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_EQ(json["limit"], "max_tokens");
  EXPECT_EQ(json["seed"], 5);
  EXPECT_EQ(json["usage"]["completion_tokens"], 2);
  EXPECT_EQ(json["logprobs"].size(), 2u);
  EXPECT_FALSE(Run({"generate", "--json", "hi"}).Json().contains("logprobs"));
}

TEST_F(CliWithServerTest, GenerateWithASystemMessageSendsMessages) {
  Start();
  EXPECT_EQ(Run({"generate", "--system", "Be brief.", "hi"}).code, 0);
  const v1::GenerateRequest request = server_->seen().generates.at(0);
  ASSERT_EQ(request.messages().messages_size(), 2);
  EXPECT_EQ(request.messages().messages(0).role(), v1::ROLE_SYSTEM);
  EXPECT_EQ(request.messages().messages(1).content(), "hi");
}

TEST_F(CliWithServerTest, GenerateTellsWhichFieldWasWrong) {
  fake::Behaviour behaviour;
  behaviour.refusals = {fake::BadRequest("sampling.top_p", "2 is above 1")};
  Start(behaviour);
  const Outcome outcome = Run({"generate", "--top-p", "2", "x"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("sampling.top_p: 2 is above 1"));
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(CliWithServerTest, ChatKeepsOneSessionAndClosesIt) {
  Start();
  const Outcome outcome = Run({"chat", "--max-tokens", "2"}, "hello\n\n/memory\n/help\nagain\n");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("w1 w2 \n"));
  EXPECT_THAT(outcome.out, HasSubstr("4 tokens in 1 blocks"));
  EXPECT_THAT(outcome.out, HasSubstr("/reset"));
  const fake::Seen seen = server_->seen();
  ASSERT_EQ(seen.generates.size(), 2u);
  EXPECT_EQ(seen.generates[0].session_id(), seen.generates[1].session_id());
  EXPECT_EQ(seen.sessions_created, 1);
  EXPECT_EQ(seen.sessions_closed, 1);
}

TEST_F(CliWithServerTest, ChatGoesOnWithAKeptSession) {
  Start();
  const Outcome first = Run({"chat", "--keep"}, "hello\n");
  ASSERT_THAT(first.out, HasSubstr("session session-1"));
  EXPECT_EQ(server_->open_sessions(), 1);
  EXPECT_EQ(Run({"chat", "--session", "session-1"}, "again\n/reset\n").code, 0);
  EXPECT_EQ(server_->seen().generates.at(1).session_id(), "session-1");
  EXPECT_EQ(server_->seen().resets, 1);
  EXPECT_EQ(server_->open_sessions(), 1);  // it was there before the chat, and is after it
}

TEST_F(CliWithServerTest, ChatInAPipeFailsWhereALineFailed) {
  Start();
  const Outcome outcome = Run({"chat"}, "/fly\nhello\n");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no command /fly"));
  EXPECT_THAT(outcome.out, HasSubstr("w1 "));  // and the line after it was answered
}

TEST_F(CliWithServerTest, SessionsAreListedShownAndClosed) {
  Start();
  ASSERT_EQ(Run({"chat", "--keep"}, "hello\n").code, 0);
  EXPECT_THAT(Run({"sessions", "list"}).out, HasSubstr("session-1"));
  const auto list = Run({"sessions", "list", "--json"}).Json();
  EXPECT_EQ(list["sessions"][0]["id"], "session-1");
  const auto show = Run({"sessions", "show", "session-1", "--json"}).Json();
  EXPECT_EQ(show["turn"], 1);
  EXPECT_EQ(show["memory"]["private_blocks"], 2);
  EXPECT_THAT(Run({"sessions", "show", "session-1"}).out, HasSubstr("2 blocks"));
  EXPECT_EQ(Run({"sessions", "close", "session-1"}).code, 0);
  const Outcome again = Run({"sessions", "close", "session-1"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("Not found: no session session-1"));
}

TEST_F(CliWithServerTest, TopOnceIsATableOrOneDocument) {
  Start();
  ASSERT_EQ(Run({"chat", "--keep"}, "hello\n").code, 0);
  const auto json = Run({"top", "--once", "--json"}).Json();
  EXPECT_EQ(json["pool"]["total_blocks"], 1000);
  EXPECT_EQ(json["sessions"][0]["label"], "chat");
  EXPECT_EQ(json["load"]["max_sessions"], 64);
  EXPECT_THAT(Run({"top", "--once"}).out, HasSubstr("2 charged + 0 cached + 998 free = 1,000"));
}

TEST_F(CliWithServerTest, ModelHealthAndAdmin) {
  fake::Behaviour behaviour;
  behaviour.ledger_ok = false;
  Start(behaviour);
  EXPECT_EQ(Run({"model", "--json"}).Json()["name"], "fake-model");
  EXPECT_THAT(Run({"model"}).out, HasSubstr("no template"));
  EXPECT_EQ(Run({"health"}).code, 0);
  EXPECT_EQ(Run({"health", "--service", "no.such.Service"}).code, 1);
  EXPECT_EQ(Run({"admin", "drain"}).out, "draining; 2 live\n");
  EXPECT_EQ(Run({"admin", "drain", "--json"}).Json()["live_generations"], 2);
  const Outcome check = Run({"admin", "check"});
  EXPECT_EQ(check.code, 1);
  EXPECT_EQ(
      check.out,
      "the ledger is wrong at tick 42\n  block 7 is held twice\n  block 9 is held by nobody\n");
  EXPECT_EQ(check.err, "luna: Data loss: 2 differences in the ledger\n");
  EXPECT_FALSE(Run({"admin", "check", "--json"}).Json()["ok"]);
  Start();
  const Outcome right = Run({"admin", "check"});
  EXPECT_EQ(right.code, 0);
  EXPECT_EQ(right.out, "every block is accounted for at tick 42\n");
}

TEST_F(CliWithServerTest, BenchMeasuresAndWritesJson) {
  fake::Behaviour behaviour;
  behaviour.tokens_per_message = 3;
  Start(behaviour);
  const TempDir directory;
  const std::string path = directory.path() + "/bench.json";
  const Outcome outcome = Run({"bench", "--clients", "4", "--prompt-tokens", "10", "--max-tokens",
                               "12", "--rounds", "2", "--warmup", "1", "--json", path});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["requests"], 8);
  EXPECT_EQ(json["errors"], 0);
  EXPECT_GT(json["tokens_per_s"]["best"], 0);
  EXPECT_EQ(json["ttft_ms"]["count"], 8);
  const fake::Seen seen = server_->seen();
  ASSERT_EQ(seen.generates.size(), 12u);
  for (const auto& request : seen.generates) {
    EXPECT_EQ(request.token_ids().ids_size(), 10);
    EXPECT_TRUE(request.stopping().ignore_eos());
    EXPECT_TRUE(request.sampling().has_temperature());
    EXPECT_EQ(request.sampling().temperature(), 0);
  }
}

TEST_F(CliWithServerTest, BenchCountsErrors) {
  fake::Behaviour behaviour;
  behaviour.refusals = {fake::RetryLater("the queue is full", absl::Seconds(1))};
  Start(behaviour);
  const Outcome outcome = Run({"bench", "--clients", "3", "--prompt-tokens", "4", "--max-tokens",
                               "4", "--rounds", "1", "--warmup", "0"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("1 of 3 requests failed"));
  EXPECT_THAT(outcome.err, HasSubstr("the queue is full"));
}

TEST_F(CliWithServerTest, BenchRefusesWhatDoesNotFitTheContext) {
  Start();
  const Outcome outcome = Run({"bench", "--prompt-tokens", "500", "--max-tokens", "100"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("make 600; the context of fake-model is 512"));
}

TEST_F(CliWithServerTest, AClassInAPipe) {
  Start();
  const TempDir directory;
  const std::string report = directory.path() + "/class";
  const Outcome outcome = Run({"classroom", "--students", "12", "--turns", "2", "--think-time", "0",
                               "--arrive-over", "0", "--report", report});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("The class is over"));
  EXPECT_THAT(outcome.out, HasSubstr("left in the middle of an answer"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
  EXPECT_TRUE(std::filesystem::exists(report + "/stories.txt"));
  EXPECT_EQ(server_->open_sessions(), 0);
}

}  // namespace
}  // namespace luna
