// Several continuations of one prompt: how their mixed events are put together, shown, and what
// becomes of one that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/answer.h"
#include "client/cli/block_printer.h"
#include "client/client.h"
#include "tests/client/luna_command.h"

namespace luna {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::CliWithServerTest;
using testing_support::Outcome;

v1::GenerateEvent Text(uint32_t index, const std::string& text, uint64_t seq = 0) {
  v1::GenerateEvent event;
  event.set_seq(seq);
  event.set_index(index);
  event.mutable_delta()->set_text(text);
  return event;
}

v1::GenerateEvent End(uint32_t index, uint64_t seq = 0) {
  v1::GenerateEvent event;
  event.set_seq(seq);
  event.set_index(index);
  event.mutable_finished()->set_reason(v1::FINISH_REASON_STOP);
  return event;
}

v1::GenerateEvent Error(uint32_t index, uint64_t seq = 0) {
  v1::GenerateEvent event;
  event.set_seq(seq);
  event.set_index(index);
  event.mutable_error()->set_code(static_cast<int>(absl::StatusCode::kInternal));
  event.mutable_error()->set_message("boom");
  return event;
}

TEST(AnswersTest, JoinsEachOfThem) {
  client::Answers answers(2);
  EXPECT_TRUE(answers.Add(Text(0, "a", 0)).ok());
  EXPECT_TRUE(answers.Add(Text(1, "x", 1)).ok());
  EXPECT_TRUE(answers.Add(End(1, 2)).ok());
  EXPECT_EQ(answers.AllEnded(),
            absl::DataLossError("the stream ended without a finish of index 0"));
  EXPECT_TRUE(answers.Add(Text(0, "b", 3)).ok());
  EXPECT_TRUE(answers.Add(End(0, 4)).ok());
  EXPECT_TRUE(answers.AllEnded().ok());
  EXPECT_EQ(answers.answer(0).text, "ab");
  EXPECT_EQ(answers.answer(1).text, "x");
}

TEST(AnswersTest, AnErrorEndsItsOwnAlone) {
  client::Answers answers(2);
  EXPECT_TRUE(answers.Add(Text(0, "a", 0)).ok());
  EXPECT_TRUE(answers.Add(Error(0, 1)).ok());
  EXPECT_TRUE(answers.Add(Text(1, "x", 2)).ok());
  EXPECT_TRUE(answers.Add(End(1, 3)).ok());
  EXPECT_TRUE(answers.AllEnded().ok());
  EXPECT_EQ(answers.status(0), absl::InternalError("boom"));
  EXPECT_EQ(answers.answer(0).text, "a");
  EXPECT_TRUE(answers.status(1).ok());
}

TEST(AnswersTest, RefusesAStreamThatBreaksItsRules) {
  EXPECT_EQ(client::Answers(2).Add(Text(2, "a", 0)),
            absl::DataLossError("event 0 has index 2; n is 2"));
  EXPECT_EQ(client::Answers(2).Add(Text(1, "a", 1)),
            absl::DataLossError("event 1 arrived where 0 was due"));
  for (const bool by_error : {false, true}) {
    client::Answers answers(2);
    EXPECT_TRUE(answers.Add(by_error ? Error(1, 0) : End(1, 0)).ok());
    EXPECT_EQ(answers.Add(Text(1, "a", 1)), absl::DataLossError("event 1 arrived after the end"));
  }
}

class BlockPrinterTest : public testing::Test {
 protected:
  cli::BlockPrinter Printer(size_t n, bool to_terminal = false) {
    return cli::BlockPrinter(
        n,
        [this](const std::string& text) {
          shown_ += text;
          return writable_;
        },
        nullptr, to_terminal, style_);
  }

  const term::Style style_{false};
  std::string shown_;
  bool writable_ = true;
};

TEST_F(BlockPrinterTest, ShowsTheFirstLiveAndTheOthersInTheirTurn) {
  cli::BlockPrinter printer = Printer(3);
  EXPECT_THAT(shown_, IsEmpty());
  printer.Add(Text(2, "third"));
  printer.Add(End(2));
  printer.Add(Text(0, "fir"));
  EXPECT_EQ(shown_, "-- 1 of 3 --\nfir");
  printer.Add(Text(1, "sec"));
  printer.Add(Text(0, "st\n"));
  printer.Add(End(0));
  EXPECT_EQ(shown_, "-- 1 of 3 --\nfirst\n\n-- 2 of 3 --\nsec");
  printer.Add(Text(1, "ond"));
  printer.Add(End(1));
  const std::string all = "-- 1 of 3 --\nfirst\n\n-- 2 of 3 --\nsecond\n\n-- 3 of 3 --\nthird\n";
  EXPECT_EQ(shown_, all);
  printer.End();
  EXPECT_EQ(shown_, all);
}

TEST_F(BlockPrinterTest, ASingleOneHasNoHeading) {
  cli::BlockPrinter printer = Printer(1);
  printer.Add(Text(0, "words"));
  printer.Add(End(0));
  EXPECT_EQ(shown_, "words\n");
}

TEST_F(BlockPrinterTest, AStreamThatBreaksOffShowsThoseThatEnded) {
  cli::BlockPrinter printer = Printer(4);
  printer.Add(Text(0, "begun"));
  printer.Add(Text(1, "half of it"));
  printer.Add(Text(3, "whole"));
  printer.Add(End(3));
  printer.End();
  EXPECT_EQ(shown_, "-- 1 of 4 --\nbegun\n\n-- 4 of 4 --\nwhole\n");
}

TEST_F(BlockPrinterTest, AnErrorMakesWayForTheNext) {
  cli::BlockPrinter printer = Printer(2);
  printer.Add(Text(1, "whole"));
  printer.Add(End(1));
  printer.Add(Error(0));
  EXPECT_EQ(shown_, "-- 1 of 2 --\n\n-- 2 of 2 --\nwhole\n");
}

TEST_F(BlockPrinterTest, KeepsControlsFromATerminalAlone) {
  cli::BlockPrinter to_terminal = Printer(1, true);
  to_terminal.Add(Text(0, "a\x1b[2Jb"));
  EXPECT_EQ(shown_, "a[2Jb");
  shown_.clear();
  cli::BlockPrinter to_pipe = Printer(1);
  to_pipe.Add(Text(0, "a\x1b[2Jb"));
  EXPECT_EQ(shown_, "a\x1b[2Jb");
}

TEST_F(BlockPrinterTest, TellsThatNothingCanBeShown) {
  cli::BlockPrinter printer = Printer(2);
  EXPECT_TRUE(printer.Add(Text(1, "later")));
  writable_ = false;
  EXPECT_FALSE(printer.Add(Text(0, "now")));
}

class ContinuationsTest : public CliWithServerTest {
 protected:
  // Each has two tokens fewer than the one before it, so the last ends first.
  void StartUneven(std::vector<uint32_t> failing = {}) {
    fake::Behaviour behaviour;
    behaviour.answer_tokens = 5;
    behaviour.fewer_tokens_each = 2;
    behaviour.failing = std::move(failing);
    Start(behaviour);
  }
};

TEST_F(ContinuationsTest, AreShownOneBelowTheOther) {
  StartUneven();
  const Outcome outcome = Run({"generate", "--n", "3", "--seed", "7", "--verbose", "hello"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out,
            "-- 1 of 3 --\nw1 w2 w3 w4 w5 \n\n"
            "-- 2 of 3 --\n1:w1 1:w2 1:w3 \n\n"
            "-- 3 of 3 --\n2:w1 \n");
  EXPECT_EQ(outcome.err,
            "(5 tokens after 2, 0 of them cached; stop; seed 7)\n"
            "(3 tokens after 2, 0 of them cached; stop; seed 8)\n"
            "(1 tokens after 2, 0 of them cached; stop; seed 9)\n");
  EXPECT_EQ(server_->seen().generates.at(0).n(), 3u);
}

TEST_F(ContinuationsTest, OneIsAsWithoutTheFlag) {
  StartUneven();
  const Outcome without = Run({"generate", "x"});
  EXPECT_EQ(Run({"generate", "--n", "1", "x"}).out, without.out);
  EXPECT_FALSE(server_->seen().generates.at(0).has_n());
  EXPECT_EQ(Run({"generate", "--n", "1", "--json", "x"}).Json()["text"], "w1 w2 w3 w4 w5 ");
  const Outcome cut = Run({"generate", "--verbose", "--max-tokens", "2", "x"});
  EXPECT_EQ(cut.out, "w1 w2 \n");
  EXPECT_EQ(cut.err, "(2 tokens after 1, 0 of them cached; length: max_tokens; seed 4711)\n");
}

TEST_F(ContinuationsTest, JsonHasThemInAList) {
  StartUneven();
  const auto list =
      Run({"generate", "--n", "2", "--seed", "7", "--json", "x"}).Json()["continuations"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["text"], "w1 w2 w3 w4 w5 ");
  EXPECT_EQ(list[1]["text"], "1:w1 1:w2 1:w3 ");
  EXPECT_EQ(list[1]["seed"], 8);
  EXPECT_EQ(list[1]["usage"]["completion_tokens"], 3);
  EXPECT_FALSE(list[1].contains("error"));
}

TEST_F(ContinuationsTest, OneThatFailsLeavesTheOthersAlone) {
  StartUneven({1});
  const Outcome outcome = Run({"generate", "--n", "3", "x"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out,
            "-- 1 of 3 --\nw1 w2 w3 w4 w5 \n\n-- 2 of 3 --\n1:w1 \n\n-- 3 of 3 --\n2:w1 \n");
  EXPECT_EQ(outcome.err,
            "luna: Internal: 1 of 3 continuations failed\n  2 of 3: Internal: the step failed\n");
  const Outcome json = Run({"generate", "--n", "2", "--json", "x"});
  EXPECT_EQ(json.code, 1);
  const auto list = json.Json()["continuations"];
  EXPECT_EQ(list[0]["finish_reason"], "stop");
  EXPECT_EQ(list[1]["finish_reason"], "error");
  EXPECT_EQ(list[1]["error"]["code"], "INTERNAL");
  EXPECT_EQ(list[1]["error"]["message"], "the step failed");
}

TEST_F(ContinuationsTest, ASingleOneThatFailsIsTheError) {
  StartUneven({0});
  const Outcome outcome = Run({"generate", "x"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "w1 \n");
  EXPECT_EQ(outcome.err, "luna: Internal: the step failed\n");
  EXPECT_THAT(Run({"generate", "--json", "x"}).out, IsEmpty());
}

TEST_F(ContinuationsTest, TheUnaryCallHasTheOthersBesideTheFirst) {
  StartUneven();
  client::Client client(client::Connect({server_->address()}));
  v1::GenerateRequest request;
  request.set_text("x");
  request.set_n(2);
  const auto response = client.GenerateUnary(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->text(), "w1 w2 w3 w4 w5 ");
  ASSERT_EQ(response->others_size(), 1);
  EXPECT_EQ(response->others(0).text(), "1:w1 1:w2 1:w3 ");
}

TEST_F(ContinuationsTest, ThePythonExampleOfForks) {
  Start();
  testing_support::Subprocess python(
      {"/usr/bin/python3", "client/python/luna_fork.py", server_->address()});
  EXPECT_EQ(python.Wait(), 0) << python.error();
  EXPECT_THAT(python.output(), HasSubstr(" In winter:w1 w2 "));
  EXPECT_THAT(python.output(), HasSubstr("[2 blocks of its own, 2 shared]"));
  EXPECT_THAT(python.output(), HasSubstr("seed 3: The door opened, and2:w1 "));
  EXPECT_EQ(server_->open_sessions(), 0);
}

TEST_F(ContinuationsTest, ARefusalShowsNoHeading) {
  fake::Behaviour behaviour;
  behaviour.refusals = {fake::BadRequest("n", "3; the pool has room for 2")};
  Start(behaviour);
  const Outcome outcome = Run({"generate", "--n", "3", "x"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, HasSubstr("n: 3; the pool has room for 2"));
}

}  // namespace
}  // namespace luna
