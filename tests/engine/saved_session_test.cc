// What outlives the server: a restored session says what an uninterrupted one would have said.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::EngineBench;
using testing::ElementsAre;
using testing::HasSubstr;

EngineBench::Options Server(uint64_t seed = 1) {
  EngineBench::Options options;
  options.engine.model_digest = "digest";
  options.engine.seed = seed;
  return options;
}

// At temperature 1, without a seed of its own.
Request Tell(const std::string& text, const std::string& session) {
  Request request = Ask(text, 12, session);
  request.sampling.temperature = 1.0f;
  return request;
}

TEST(SavedSessionTest, GoesOnElsewhereAsIfNothingHadHappened) {
  EngineBench first(Server(/*seed=*/1)), second(Server(/*seed=*/2));
  SessionSpec spec{.caller = "here", .label = "story"};
  spec.default_sampling.top_k = 20;
  const SessionInfo session = *first.CreateSession(spec);
  for (const char* text : {"one", "two"}) first.Run(Tell(text, session.key));
  const SavedSession saved = *first.SaveSession(session.key);
  const SessionInfo restored = *second.RestoreSession(saved);
  EXPECT_EQ(restored.key, session.key);
  EXPECT_EQ(restored.caller, "here");
  EXPECT_EQ(restored.label, "story");
  EXPECT_EQ(restored.turn, 2u);
  EXPECT_EQ(restored.default_sampling.top_k, 20);
  EXPECT_FALSE(restored.other_numerics);
  EXPECT_EQ(restored.last_text, first.GetSession(session.key)->last_text);

  for (const char* text : {"three", "four"}) {
    const Answer want = first.Run(Tell(text, session.key));
    const Answer got = second.Run(Tell(text, session.key));
    EXPECT_EQ(got.accepted->seed, want.accepted->seed);  // the seeds are the session's own
    EXPECT_EQ(got.tokens, want.tokens);
  }
  // The cache was computed again, and turns can be taken back.
  ASSERT_TRUE(second.ResetSession(session.key, 1).ok());
  EXPECT_EQ(second.GetSession(session.key)->turn, 1u);
}

TEST(SavedSessionTest, OfAnotherModelOrDamagedIsRefusedAndChangesNothing) {
  EngineBench bench(Server());
  const SessionInfo session = *bench.CreateSession();
  bench.Run(Tell("one", session.key));
  const SavedSession saved = *bench.SaveSession(session.key);
  const auto refuse = [&](SavedSession changed) {
    const absl::Status status = bench.RestoreSession(std::move(changed)).status();
    EXPECT_EQ(bench.snapshot().sessions.size(), 1u);
    return status;
  };
  const absl::Status twice = refuse(saved);
  EXPECT_EQ(twice.code(), absl::StatusCode::kAlreadyExists);
  SavedSession other = saved;
  other.key = std::string(32, 'a');
  other.model_digest = "another";
  EXPECT_EQ(refuse(other).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refuse(other).message()), HasSubstr("another"));
  other.model_digest = saved.model_digest;
  other.history.back() = 1'000'000;
  EXPECT_EQ(refuse(other).code(), absl::StatusCode::kInvalidArgument);
  other.history.assign(129, 'x');
  EXPECT_THAT(std::string(refuse(other).message()),
              HasSubstr("history has 129 entries; the context is 128"));
  other = saved;
  other.key = std::string(32, 'a');
  other.default_sampling.temperature = -1.0f;
  EXPECT_EQ(refuse(other).code(), absl::StatusCode::kInvalidArgument);
}

// Dropped turns and empty ones may leave a conversation of turns without a token.
TEST(SavedSessionTest, OfTurnsWithoutTokensGoesOn) {
  EngineBench bench(Server());
  const SessionInfo session = *bench.CreateSession();
  SavedSession saved = *bench.SaveSession(session.key);
  ASSERT_TRUE(bench.CloseSession(session.key).ok());
  saved.turns.resize(2);
  ASSERT_TRUE(bench.RestoreSession(saved).ok());
  Request request = Tell("one", session.key);
  request.input.raw = false;
  EXPECT_TRUE(bench.Run(request).finished.has_value());
  EXPECT_EQ(bench.GetSession(session.key)->turn, 3u);
}

TEST(SavedSessionTest, UnderOtherNumericsItSaysSo) {
  EngineBench bench(Server());
  const SessionInfo session = *bench.CreateSession();
  SavedSession saved = *bench.SaveSession(session.key);
  saved.key = std::string(32, 'b');
  saved.numerics = "other";
  EXPECT_TRUE(bench.RestoreSession(saved)->other_numerics);
  // And goes on saying so, wherever it is taken.
  SavedSession again = *bench.SaveSession(saved.key);
  ASSERT_TRUE(bench.CloseSession(saved.key).ok());
  EXPECT_TRUE(bench.RestoreSession(again)->other_numerics);
}

// A stream from a client does not give itself more than the server gives; its own files do.
TEST(SavedSessionTest, LimitsBeyondTheDefaultsNeedTrust) {
  EngineBench::Options options = Server();
  options.engine.default_quota_bytes = 20 * 128;
  EngineBench bench(options);
  const SessionInfo session = *bench.CreateSession();
  SavedSession saved = *bench.SaveSession(session.key);
  saved.key = std::string(32, 'c');
  saved.quota_bytes = 40 * 128;
  saved.guarantee_bytes = 10 * 128;
  EXPECT_EQ(bench.RestoreSession(saved)->quota_bytes, 20 * 128);
  EXPECT_EQ(bench.GetSession(saved.key)->guarantee_bytes, 0);
  ASSERT_TRUE(bench.CloseSession(saved.key).ok());
  EXPECT_EQ(bench.RestoreSession(saved, {.caller = "me", .trusted = true})->quota_bytes, 40 * 128);
  EXPECT_EQ(bench.GetSession(saved.key)->guarantee_bytes, 10 * 128);
  EXPECT_EQ(bench.GetSession(saved.key)->caller, "me");
}

TEST(SavedSessionTest, WhatIsWorthSavingIsToldAfterEachChange) {
  EngineBench::Options options = Server();
  std::vector<std::string> told;
  SavedSession last;
  options.engine.on_changed = [&](const SavedSession& saved) {
    last = saved;
    told.push_back(saved.label + ":" + std::to_string(saved.turns.size()));
  };
  EngineBench bench(options);
  const SessionInfo session = *bench.CreateSession({.label = "a"});
  bench.Run(Ask("one", 3, session.key));
  bench.Run(Ask("a one-off", 3));
  SessionUpdate update;
  update.label = "b";
  ASSERT_TRUE(bench.UpdateSession(session.key, update).ok());
  ASSERT_TRUE(bench.ResetSession(session.key).ok());
  LimitsUpdate limits;
  limits.quota_bytes = 3 * bench.block_bytes();
  ASSERT_TRUE(bench.SetLimits(session.id, limits).ok());
  EXPECT_EQ(last.quota_bytes, 3 * bench.block_bytes());
  EXPECT_EQ(bench.SaveSession("unknown").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(bench.CloseSession(session.key).ok());
  EXPECT_THAT(told, ElementsAre("a:0", "a:1", "b:1", "b:0", "b:0"));
}

TEST(SavedSessionTest, NotInTheMiddleOfAnAnswer) {
  EngineBench bench(Server());
  const SessionInfo session = *bench.CreateSession();
  bench.Submit(Ask("x", 9, session.key));
  bench.Tick(2);
  EXPECT_EQ(bench.SaveSession(session.key).status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace luna::engine
