// Sessions as callers see them, and the errors they get.
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::EngineBench;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

SessionSpec Of(std::string caller, std::string label = "") {
  SessionSpec spec;
  spec.caller = std::move(caller);
  spec.label = std::move(label);
  return spec;
}

TEST(SessionTest, KeysAreLongAndNeverTheSame) {
  EngineBench::Options options;
  options.engine.max_sessions = 200;
  EngineBench bench(options);
  std::set<std::string> keys;
  for (int i = 0; i < 200; ++i) keys.insert(bench.CreateSession()->key);
  EXPECT_EQ(keys.size(), 200u);
  EXPECT_EQ(keys.begin()->size(), 32u);
}

TEST(SessionTest, ACallerSeesItsOwnSessionsInTheOrderOfCreation) {
  EngineBench bench;
  bench.CreateSession(Of("a", "one")).IgnoreError();
  bench.CreateSession(Of("b", "two")).IgnoreError();
  bench.CreateSession(Of("a", "three")).IgnoreError();
  const auto sessions = *bench.ListSessions("a");
  ASSERT_THAT(sessions, SizeIs(2));
  EXPECT_EQ(sessions[0].label, "one");
  EXPECT_EQ(sessions[1].label, "three");
}

TEST(SessionTest, TooManySessionsAreRefusedWithBothNumbersAndARetry) {
  EngineBench::Options options;
  options.engine.max_sessions = 2;
  EngineBench bench(options);
  const SessionInfo first = *bench.CreateSession();
  ASSERT_TRUE(bench.CreateSession().ok());
  const absl::Status status = bench.CreateSession().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the server holds 2 sessions; the limit is 2");
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  // One-offs are not counted, and a place becomes free.
  EXPECT_TRUE(bench.Run(Ask("a", 2)).finished.has_value());
  ASSERT_TRUE(*bench.CloseSession(first.key));
  EXPECT_TRUE(bench.CreateSession().ok());
}

TEST(SessionTest, TheLongestIdleMakesRoomOnceItsTimeIsOver) {
  EngineBench::Options options;
  options.engine.max_sessions = 2;
  options.engine.session_idle_timeout = absl::Minutes(30);
  EngineBench bench(options);
  const SessionInfo first = *bench.CreateSession();
  bench.Run(Ask("abc", 4, first.key));
  const SessionInfo second = *bench.CreateSession();
  bench.clock().Advance(absl::Minutes(29));
  EXPECT_FALSE(bench.CreateSession().ok());
  bench.Run(Ask("abc", 4, first.key));  // now the second is the forgotten one
  bench.clock().Advance(absl::Minutes(2));
  EXPECT_TRUE(bench.CreateSession().ok());
  EXPECT_TRUE(bench.GetSession(first.key).ok());
  EXPECT_EQ(bench.GetSession(second.key).status().code(), absl::StatusCode::kNotFound);
  // One that speaks is not idle, whenever it began.
  fakes::Reader* speaking = bench.Submit(Ask("abc", 4, first.key));
  bench.clock().Advance(absl::Minutes(31));
  EXPECT_TRUE(bench.CreateSession().ok());
  bench.RunToEnd();
  EXPECT_TRUE(speaking->answer.finished.has_value());
}

TEST(SessionTest, AnUnknownSessionIsNotFound) {
  EngineBench bench;
  EXPECT_EQ(bench.Run(Ask("a", 2, "nobody")).rejected->code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(bench.GetSession("nobody").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(bench.CloseSession("nobody").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(bench.ResetSession("nobody").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(bench.UpdateSession("nobody", {}).status().code(), absl::StatusCode::kNotFound);
}

TEST(SessionTest, AOneOffIsListedInTheLedgerWhileItLivesAndHasNoUsableKey) {
  EngineBench bench;
  Request request = Ask("abc", 20);
  request.stopping.ignore_eos = true;
  fakes::Reader* reader = bench.Submit(request);
  bench.Tick(2);
  ASSERT_THAT(bench.snapshot().sessions, SizeIs(1));
  const SessionMemory memory = bench.snapshot().sessions[0];
  EXPECT_TRUE(memory.ephemeral);
  EXPECT_GT(memory.charged_bytes, 0);
  EXPECT_EQ(bench.GetSession(memory.key).status().code(), absl::StatusCode::kNotFound);
  bench.RunToEnd();
  EXPECT_EQ(reader->answer.tokens.size(), 20u);
  EXPECT_THAT(bench.snapshot().sessions, IsEmpty());
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 0);
}

TEST(SessionTest, ClosingAbortsAndFrees) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  Request request = Ask("abc", 50, session.key);
  request.stopping.ignore_eos = true;
  fakes::Reader* reader = bench.Submit(request);
  bench.Tick(3);
  ASSERT_TRUE(*bench.CloseSession(session.key));
  EXPECT_EQ(reader->answer.finished->reason, FinishReason::kCancelled);
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 0);
}

TEST(SessionTest, UpdateChangesWhatIsSetAndNothingElse) {
  EngineBench bench;
  SessionSpec spec = Of("a", "old");
  spec.default_sampling.top_k = 3;
  const SessionInfo session = *bench.CreateSession(spec);
  SessionUpdate update;
  update.label = "new";
  update.context_policy = ContextPolicy::kDropOldest;
  const SessionInfo info = *bench.UpdateSession(session.key, update);
  EXPECT_EQ(info.label, "new");
  EXPECT_EQ(info.context_policy, ContextPolicy::kDropOldest);
  EXPECT_EQ(info.default_sampling.top_k, 3);
  EXPECT_EQ(info.quota_bytes, session.quota_bytes);
}

TEST(SessionTest, AFailedUpdateChangesNothing) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  SessionUpdate update;
  update.label = "new";
  update.quota_bytes = session.quota_bytes + 1;
  const absl::Status status = bench.UpdateSession(session.key, update).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "quota_bytes");
  EXPECT_EQ(bench.GetSession(session.key)->label, "");
}

TEST(SessionTest, TheSystemPromptIsFixedOnceThereIsHistory) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  SessionUpdate update;
  update.system = SystemPrompt{"new", {fakes::kSystem}};
  EXPECT_EQ(bench.UpdateSession(session.key, update)->system, "new");
  bench.Run(Ask("a", 2, session.key));
  const absl::Status status = bench.UpdateSession(session.key, update).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FieldOf(status), "system");
}

TEST(SessionTest, ResetDuringAGenerationIsAborted) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  Request request = Ask("abc", 50, session.key);
  request.stopping.ignore_eos = true;
  bench.Submit(request);
  bench.Tick();
  EXPECT_EQ(bench.ResetSession(session.key).status().code(), absl::StatusCode::kAborted);
}

TEST(SessionTest, TheRequestsParametersComeBeforeTheSessions) {
  EngineBench bench;
  SessionSpec spec;
  spec.default_sampling.top_k = 3;
  spec.default_sampling.top_p = 0.5f;
  spec.default_sampling.seed = 11;
  const SessionInfo session = *bench.CreateSession(spec);
  Request request = Ask("a", 1, session.key);
  request.sampling.top_k = 9;
  const Answer answer = bench.Run(request);
  EXPECT_EQ(answer.accepted->sampling.top_k, 9);
  EXPECT_EQ(answer.accepted->sampling.top_p, 0.5f);
  EXPECT_EQ(answer.accepted->seed, 11u);
}

TEST(SessionTest, BadParametersAreRefusedByName) {
  EngineBench bench;
  const auto refused = [&](auto change) {
    Request request = Ask("abc", 5);
    change(request);
    const Answer answer = bench.Run(request);
    EXPECT_TRUE(answer.rejected.has_value());
    EXPECT_EQ(answer.rejected->code(), absl::StatusCode::kInvalidArgument);
    return FieldOf(*answer.rejected);
  };
  EXPECT_EQ(refused([](Request& r) { r.sampling.top_p = 0.0f; }), "top_p");
  EXPECT_EQ(refused([](Request& r) { r.sampling.temperature = std::nanf(""); }), "temperature");
  EXPECT_EQ(refused([](Request& r) { r.stopping.stop = {""}; }), "stop[0]");
  EXPECT_EQ(refused([](Request& r) { r.stopping.stop_ids = {5000}; }), "stop_ids[0]");
  EXPECT_EQ(refused([](Request& r) { r.input.tokens[1] = 5000; }), "token_ids[1]");
  EXPECT_EQ(refused([](Request& r) { r.input.tokens[2] = -1; }), "token_ids[2]");
  EXPECT_EQ(refused([](Request& r) { r.num_logprobs = 21; }), "num_logprobs");
  SessionSpec spec;
  spec.default_sampling.min_p = 2.0f;
  EXPECT_EQ(FieldOf(bench.CreateSession(spec).status()), "min_p");
  EXPECT_EQ(bench.Run(Ask("abc", 5)).finished.has_value(), true);
}

TEST(SessionTest, ADuplicateLiveRequestIdOfOneCallerAlreadyExists) {
  EngineBench bench;
  Request request = Ask("abc", 9);
  request.request_id = "mine";
  Request of_another = request;
  of_another.caller = "somebody else";
  fakes::Reader* first = bench.Submit(request);
  fakes::Reader* second = bench.Submit(request);
  fakes::Reader* another = bench.Submit(of_another);
  bench.RunToEnd();
  EXPECT_TRUE(first->answer.finished.has_value());
  EXPECT_TRUE(another->answer.finished.has_value());
  EXPECT_EQ(second->answer.rejected->code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(FieldOf(*second->answer.rejected), "request_id");
  EXPECT_TRUE(bench.Run(request).finished.has_value());  // free again
}

// v#13408, mlx-lm#965: one user's answer reached another.
TEST(SessionTest, ThirtySessionsWithMarkersNoneCrosses) {
  EngineBench::Options options;
  options.num_blocks = 150;  // far too few for all at once
  EngineBench bench(options);
  // The model says again and again the last marker, two letters, that it finds in its history.
  bench.backend().set_script([](std::span<const TokenId> history, TokenId) {
    const TokenId first = history[0], second = history[1];
    return history.size() % 2 == 0 ? first : second;
  });
  std::vector<fakes::Reader*> readers;
  std::vector<std::string> markers;
  std::vector<SessionInfo> sessions;
  for (int i = 0; i < 30; ++i) {
    markers.push_back({static_cast<char>('a' + i % 26), static_cast<char>('A' + i / 26)});
    sessions.push_back(*bench.CreateSession());
  }
  for (int turn = 0; turn < 3; ++turn) {
    readers.clear();
    for (int i = 0; i < 30; ++i) {
      const std::string prompt = turn == 0 ? markers[i] : std::string(2, '.');
      readers.push_back(bench.Submit(Ask(prompt, 20, sessions[i].key)));
      bench.Tick();
    }
    bench.RunToEnd();
    for (int i = 0; i < 30; ++i) {
      std::string want;
      for (int k = 0; k < 10; ++k) want += markers[i];
      EXPECT_EQ(readers[i]->answer.text, want) << "session " << i << " turn " << turn;
    }
  }
}

}  // namespace
}  // namespace luna::engine
