// A turn joins, commits or leaves nothing behind.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::Bytes;
using fakes::EngineBench;
using fakes::kEnd;
using fakes::kSystem;
using fakes::kTurn;
using testing::ElementsAreArray;
using testing::HasSubstr;

// A model with a chat template: <system>S opens, <turn> stands before what a user says, an answer
// ends by <end>, and a newline follows it.
EngineBench::Options Chatting() {
  EngineBench::Options options;
  options.engine.default_opening = {kSystem, 'S'};
  options.engine.markers = {.end = {kEnd}, .after_end = {'\n'}};
  return options;
}

Request Say(std::string text, int64_t max_tokens, const SessionInfo& session) {
  Request request = Ask(text, max_tokens, session.key);
  request.input.raw = false;
  request.input.tokens.insert(request.input.tokens.begin(), kTurn);
  return request;
}

// The backend says `answer` (then ends) and writes down the history that it found. What follows an
// end in a superfluous row is nobody's.
struct Scribe {
  explicit Scribe(EngineBench& bench) {
    bench.backend().set_script([this](std::span<const TokenId> history, TokenId) {
      if (history.back() == kEnd) return kEnd;
      seen.assign(history.begin(), history.end());
      return said < answer.size() ? TokenId{static_cast<unsigned char>(answer[said++])} : kEnd;
    });
  }
  void Next(std::string text) {
    answer = std::move(text);
    said = 0;
  }
  std::string answer;
  size_t said = 0;
  std::vector<TokenId> seen;  // what the last sampled token followed
};

std::vector<TokenId> Tokens(std::initializer_list<std::vector<TokenId>> parts) {
  std::vector<TokenId> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(TurnTest, AConversationIsJoinedFromTokens) {
  EngineBench bench(Chatting());
  Scribe scribe(bench);
  const SessionInfo session = *bench.CreateSession();
  scribe.Next("yes");
  bench.Run(Say("a?", -1, session));
  scribe.Next("no");
  bench.Run(Say("b?", -1, session));
  EXPECT_THAT(scribe.seen,
              ElementsAreArray(Tokens(
                  {{kSystem, 'S', kTurn}, Bytes("a?yes"), {kEnd, '\n', kTurn}, Bytes("b?no")})));
  EXPECT_EQ(bench.GetSession(session.key)->last_text, "no");
}

TEST(TurnTest, AnAnswerThatDidNotEndItselfIsEndedForIt) {
  EngineBench bench(Chatting());
  Scribe scribe(bench);
  const SessionInfo session = *bench.CreateSession();
  scribe.Next("yesyes");
  bench.Run(Say("a?", 3, session));
  scribe.Next("n");
  bench.Run(Say("b?", -1, session));
  EXPECT_THAT(scribe.seen,
              ElementsAreArray(Tokens(
                  {{kSystem, 'S', kTurn}, Bytes("a?yes"), {kEnd, '\n', kTurn}, Bytes("b?n")})));
}

TEST(TurnTest, TheOpeningIsTheRequestsElseTheSessionsElseTheServers) {
  EngineBench bench(Chatting());
  Scribe scribe(bench);
  SessionSpec spec;
  spec.system = SystemPrompt{"Be kind", {kSystem, 'K'}};
  const SessionInfo session = *bench.CreateSession(spec);
  EXPECT_EQ(session.system, "Be kind");
  bench.Run(Say("a", 1, session));
  EXPECT_THAT(scribe.seen, ElementsAreArray({kSystem, TokenId{'K'}, kTurn, TokenId{'a'}}));
  ASSERT_TRUE(bench.ResetSession(session.key).ok());
  Request own = Say("a", 1, session);
  own.input.opening = std::vector<TokenId>{kSystem, 'O'};
  bench.Run(own);
  EXPECT_THAT(scribe.seen, ElementsAreArray({kSystem, TokenId{'O'}, kTurn, TokenId{'a'}}));
}

TEST(TurnTest, RawTokensAreTakenAsTheyAre) {
  EngineBench bench(Chatting());
  Scribe scribe(bench);
  const SessionInfo session = *bench.CreateSession();
  scribe.Next("xyz");
  bench.Run(Ask("once", 2, session.key));
  bench.Run(Ask("upon", 1, session.key));
  EXPECT_THAT(scribe.seen, ElementsAreArray(Bytes("oncexyupon")));
}

TEST(TurnTest, ASecondTurnComputesOnlyItsNewTokens) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  Request first = Ask(std::string(40, 'a'), 10, session.key);
  first.stopping.ignore_eos = true;
  bench.Run(first);
  const int64_t before = bench.backend().computed_tokens();
  Request second = Ask("bcd", 1, session.key);
  const Answer answer = bench.Run(second);
  // The last sampled token had no KV yet.
  EXPECT_EQ(bench.backend().computed_tokens() - before, 4);
  EXPECT_EQ(answer.finished->usage.prompt_tokens, 53u);
  EXPECT_EQ(answer.finished->usage.cached_tokens, 49u);
  EXPECT_EQ(answer.prompt->cached_tokens, 49u);
}

TEST(TurnTest, ACancelledTurnLeavesNothingAndItsRetrySaysTheSame) {
  EngineBench bench(Chatting());
  const SessionInfo session = *bench.CreateSession();
  bench.Run(Say("first", 8, session));
  const SessionInfo before = *bench.GetSession(session.key);

  Request request = Say("second", 20, session);
  request.stopping.ignore_eos = true;
  request.sampling.temperature = 1.0f;
  request.sampling.seed = 9;
  request.expected_turn = 1;
  const Answer whole = [&] {
    EngineBench other(Chatting());
    const SessionInfo twin = *other.CreateSession();
    other.Run(Say("first", 8, twin));
    Request same = request;
    same.session_key = twin.key;
    return other.Run(same);
  }();

  fakes::Reader* reader = bench.Submit(request);
  bench.Tick(6);
  reader->stream->RequestCancel();
  bench.Tick();
  ASSERT_TRUE(reader->answer.finished.has_value());
  EXPECT_EQ(reader->answer.finished->reason, FinishReason::kCancelled);
  EXPECT_EQ(reader->answer.finished->turn, 1u);
  const SessionInfo after = *bench.GetSession(session.key);
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(after.turn, before.turn);
  EXPECT_EQ(bench.Run(request).tokens, whole.tokens);
}

TEST(TurnTest, AbortMayKeepWhatIsThere) {
  EngineBench bench(Chatting());
  Scribe scribe(bench);
  const SessionInfo session = *bench.CreateSession();
  scribe.Next("abcdefghij");
  fakes::Reader* reader = bench.Submit(Say("q", -1, session));
  bench.Tick(4);
  EXPECT_TRUE(*bench.Abort(reader->answer.accepted->generation_id, /*keep_partial=*/true));
  EXPECT_EQ(reader->answer.finished->reason, FinishReason::kCancelled);
  EXPECT_EQ(reader->answer.finished->turn, 1u);
  const std::string said = bench.backend().depth() > 1 ? "abcde" : "abcd";  // one was on its way
  EXPECT_EQ(reader->answer.text, said);
  EXPECT_EQ(bench.GetSession(session.key)->last_text, said);
  scribe.Next("!");
  bench.Run(Say("r", -1, session));
  EXPECT_THAT(scribe.seen,
              ElementsAreArray(Tokens(
                  {{kSystem, 'S', kTurn}, Bytes("q" + said), {kEnd, '\n', kTurn}, Bytes("r!")})));
}

TEST(TurnTest, AWrongExpectedTurnIsAborted) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  bench.Run(Ask("a", 2, session.key));
  Request request = Ask("b", 2, session.key);
  request.expected_turn = 0;
  const Answer answer = bench.Run(request);
  EXPECT_EQ(answer.rejected->code(), absl::StatusCode::kAborted);
  EXPECT_EQ(answer.rejected->message(), "expected_turn is 0; the session's turn is 1");
}

TEST(TurnTest, ASecondLiveGenerationOfASessionIsAborted) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  Request request = Ask("a", 9, session.key);
  request.stopping.ignore_eos = true;
  fakes::Reader* first = bench.Submit(request);
  fakes::Reader* second = bench.Submit(request);
  bench.RunToEnd();
  EXPECT_EQ(first->answer.tokens.size(), 9u);
  EXPECT_EQ(second->answer.rejected->code(), absl::StatusCode::kAborted);
}

TEST(TurnTest, ATurnThatNoLongerFitsChangesNothingAndSaysWhatIsLeft) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  Request first = Ask(std::string(100, 'a'), 20, session.key);
  first.stopping.ignore_eos = true;
  bench.Run(first);
  const Answer answer = bench.Run(Ask(std::string(9, 'b'), 5, session.key));
  ASSERT_TRUE(answer.rejected.has_value());
  EXPECT_EQ(answer.rejected->code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(answer.rejected->message(),
            "the turn adds 9 tokens to a history of 120; the context is 128: 8 are left");
  EXPECT_EQ(bench.GetSession(session.key)->tokens, 120u);
  EXPECT_EQ(bench.GetSession(session.key)->context_left, 8u);
  // What is cached of it is still good.
  EXPECT_EQ(bench.Run(Ask("b", 1, session.key)).finished->usage.cached_tokens, 119u);
}

// An empty turn on a full context was kept as a record, again and again.
TEST(TurnTest, ATurnThatAddsNothingIsNone) {
  EngineBench::Options options;
  options.context_length = 32;
  EngineBench bench(options);
  const SessionInfo session = *bench.CreateSession();
  Request first = Ask(std::string(20, 'a'), -1, session.key);
  first.stopping.ignore_eos = true;
  bench.Run(first);
  ASSERT_EQ(bench.GetSession(session.key)->context_left, 0u);
  for (int i = 0; i < 3; ++i) {
    const Answer answer = bench.Run(Ask("", -1, session.key));
    EXPECT_EQ(answer.finished->reason, FinishReason::kLength);
    EXPECT_EQ(answer.finished->limit, Limit::kContext);
    EXPECT_EQ(answer.finished->turn, 1u);
  }
  EXPECT_EQ(bench.GetSession(session.key)->turn, 1u);
  EXPECT_EQ(bench.GetSession(session.key)->tokens, 32u);
}

TEST(TurnTest, TheOldestTurnsLeaveAndTheOpeningStays) {
  EngineBench bench(Chatting());
  Scribe scribe(bench);
  SessionSpec spec;
  spec.context_policy = ContextPolicy::kDropOldest;
  const SessionInfo session = *bench.CreateSession(spec);
  for (int turn = 0; turn < 12; ++turn) {
    scribe.Next(absl::StrCat("answer", turn));
    const Answer answer = bench.Run(Say(absl::StrCat("question", turn), -1, session));
    ASSERT_TRUE(answer.finished.has_value());
    EXPECT_EQ(answer.text, absl::StrCat("answer", turn));
    EXPECT_EQ(answer.finished->turn, turn + 1u);
  }
  const SessionInfo info = *bench.GetSession(session.key);
  EXPECT_EQ(info.turn, 12u);
  EXPECT_GT(info.dropped_turns, 4u);
  EXPECT_LT(info.dropped_turns, 11u);
  // <system>S, then the oldest turn that stayed, without what joined it to the one before.
  const std::vector<TokenId> start = Tokens(
      {{kSystem, 'S', kTurn}, Bytes(absl::StrCat("question", info.dropped_turns, "answer"))});
  EXPECT_THAT(std::vector<TokenId>(scribe.seen.begin(), scribe.seen.begin() + start.size()),
              ElementsAreArray(start));

  // Going back to a turn that is still there, and to one that is not.
  EXPECT_EQ(bench.ResetSession(session.key, info.dropped_turns - 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const SessionInfo back = *bench.ResetSession(session.key, info.dropped_turns + 1);
  EXPECT_EQ(back.turn, info.dropped_turns + 1);
  EXPECT_EQ(back.last_text, absl::StrCat("answer", info.dropped_turns));
  scribe.Next("again");
  EXPECT_EQ(bench.Run(Say("q", -1, session)).text, "again");
  // To exactly those that left: the conversation is opened anew.
  ASSERT_TRUE(bench.ResetSession(session.key, info.dropped_turns).ok());
  scribe.Next("new");
  bench.Run(Say("q", -1, session));
  EXPECT_THAT(scribe.seen, ElementsAreArray(Tokens({{kSystem, 'S', kTurn}, Bytes("qnew")})));
}

// A family that writes the system prompt into the first user turn, as `<turn>[system]text`.
Request SayWithin(std::string text, const SessionInfo& session) {
  Request request = Say(text, -1, session);
  request.input.after_system = Bytes(text);
  return request;
}

TEST(TurnTest, TheFirstTurnThatStaysFollowsTheSystemPromptThatBeginsIt) {
  EngineBench bench(Chatting());
  Scribe scribe(bench);
  SessionSpec spec;
  spec.context_policy = ContextPolicy::kDropOldest;
  spec.system = SystemPrompt{"K", {kTurn, '[', 'K', ']'}};
  const SessionInfo session = *bench.CreateSession(spec);
  for (int turn = 0; turn < 12; ++turn) {
    scribe.Next(absl::StrCat("answer", turn));
    EXPECT_EQ(bench.Run(SayWithin(absl::StrCat("question", turn), session)).text,
              absl::StrCat("answer", turn));
    const uint32_t first = bench.GetSession(session.key)->dropped_turns;
    // Every turn but the first begins with its own marker.
    std::vector<TokenId> expected = {kTurn, '[', 'K', ']'};
    for (int i = static_cast<int>(first); i <= turn; ++i) {
      if (i > static_cast<int>(first)) expected.insert(expected.end(), {kEnd, '\n', kTurn});
      const std::vector<TokenId> said = Bytes(absl::StrCat("question", i, "answer", i));
      expected.insert(expected.end(), said.begin(), said.end());
    }
    EXPECT_THAT(scribe.seen, ElementsAreArray(expected)) << "turn " << turn;
  }
  EXPECT_GT(bench.GetSession(session.key)->dropped_turns, 4u);

  // Every turn leaves for one that fills the context.
  scribe.Next("ok");
  const std::string long_text(110, 'q');
  bench.Run(SayWithin(long_text, session));
  EXPECT_THAT(scribe.seen,
              ElementsAreArray(Tokens({{kTurn, '[', 'K', ']'}, Bytes(long_text + "ok")})));
  EXPECT_EQ(bench.GetSession(session.key)->dropped_turns, 12u);
}

TEST(TurnTest, ASystemMessageOfTheFirstTurnStaysWhenTheTurnLeaves) {
  EngineBench bench(Chatting());
  Scribe scribe(bench);
  SessionSpec spec;
  spec.context_policy = ContextPolicy::kDropOldest;
  const SessionInfo session = *bench.CreateSession(spec);
  scribe.Next("yes");
  Request first = Say("", -1, session);
  first.input.opening = std::vector<TokenId>{};
  first.input.tokens = Tokens({{kSystem, 'O', kTurn}, Bytes("a?")});
  first.input.system_tokens = 2;
  bench.Run(first);
  scribe.Next("no");
  const std::string long_text(115, 'q');
  bench.Run(Say(long_text, -1, session));
  EXPECT_THAT(scribe.seen,
              ElementsAreArray(Tokens({{kSystem, 'O', kTurn}, Bytes(long_text + "no")})));
  // A later one begins anew once all that was before it leaves.
  scribe.Next("no");
  first.input.tokens = Tokens({{kSystem, 'P', kTurn}, Bytes(long_text)});
  bench.Run(first);
  EXPECT_THAT(scribe.seen,
              ElementsAreArray(Tokens({{kSystem, 'P', kTurn}, Bytes(long_text + "no")})));
}

TEST(TurnTest, ADroppingTurnThatIsCancelledDropsNothing) {
  EngineBench bench(Chatting());
  SessionSpec spec;
  spec.context_policy = ContextPolicy::kDropOldest;
  const SessionInfo session = *bench.CreateSession(spec);
  const auto turn = [&](int length) {
    Request request = Say(std::string(length, 'q'), 20, session);
    request.stopping.ignore_eos = true;
    return request;
  };
  for (int i = 0; i < 3; ++i) bench.Run(turn(10));
  const SessionInfo before = *bench.GetSession(session.key);
  fakes::Reader* reader = bench.Submit(turn(60));
  bench.Tick(5);
  reader->stream->RequestCancel();
  bench.RunToEnd();
  const SessionInfo after = *bench.GetSession(session.key);
  EXPECT_EQ(after.dropped_turns, 0u);
  EXPECT_EQ(after.tokens, before.tokens);
  // And the words that follow are those of a session that never heard of it.
  EngineBench other(Chatting());
  const SessionInfo twin = *other.CreateSession(spec);
  for (int i = 0; i < 3; ++i) {
    Request request = turn(10);
    request.session_key = twin.key;
    other.Run(request);
  }
  Request next = turn(1);
  const Answer got = bench.Run(next);
  next.session_key = twin.key;
  EXPECT_EQ(got.tokens, other.Run(next).tokens);
}

TEST(TurnTest, ADroppingTurnLongerThanTheContextIsRefused) {
  EngineBench bench(Chatting());
  SessionSpec spec;
  spec.context_policy = ContextPolicy::kDropOldest;
  const SessionInfo session = *bench.CreateSession(spec);
  bench.Run(Say("a", 5, session));
  const Answer answer = bench.Run(Say(std::string(200, 'q'), 5, session));
  EXPECT_EQ(answer.rejected->code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(bench.GetSession(session.key)->turn, 1u);
}

TEST(TurnTest, ResetKeepsLabelLimitsAndDefaults) {
  EngineBench bench;
  SessionSpec spec;
  spec.label = "anna";
  spec.default_sampling.temperature = 0.5f;
  spec.quota_bytes = 20 * bench.block_bytes();
  const SessionInfo session = *bench.CreateSession(spec);
  bench.Run(Ask("a", 5, session.key));
  const SessionInfo info = *bench.ResetSession(session.key);
  EXPECT_EQ(info.key, session.key);
  EXPECT_EQ(info.label, "anna");
  EXPECT_EQ(info.quota_bytes, 20 * bench.block_bytes());
  EXPECT_EQ(info.default_sampling.temperature, 0.5f);
  EXPECT_EQ(info.tokens, 0u);
  EXPECT_EQ(info.turn, 0u);
  EXPECT_EQ(info.last_text, "");
  EXPECT_EQ(bench.MemoryOf(session.key).charged_bytes, 0);
  EXPECT_THAT(std::string(bench.ResetSession(session.key, 3).status().message()),
              HasSubstr("to_turn: 3 is above the session's turn, 0"));
}

}  // namespace
}  // namespace luna::engine
