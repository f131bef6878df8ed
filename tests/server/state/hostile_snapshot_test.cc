// Files whose checksum fits, written by somebody who wants the server to fall over them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_details.h"
#include "server/state/saved_session_check.h"
#include "server/state/snapshot.pb.h"
#include "server/state/snapshot_format.h"
#include "server/state/snapshot_payload.h"
#include "tests/server/state/saved_sessions.h"

namespace luna::state {
namespace {

using engine::SavedSession;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void ExpectRefused(const std::string& payload, const std::string& field) {
  const absl::Status status = DecodeSnapshot(SealPayload(payload), "file x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(FieldOf(status), field) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith(absl::StrCat("file x: ", field)))
      << status;
}

TEST(HostileSnapshotTest, SessionsThatCannotBeAreRefusedByField) {
  struct Case {
    std::string field;
    std::function<void(SavedSession&)> change;
  };
  const std::vector<Case> cases = {
      {"key", [](SavedSession& s) { s.key.clear(); }},
      {"key", [](SavedSession& s) { s.key.pop_back(); }},
      {"key", [](SavedSession& s) { s.key[3] = 'A'; }},
      {"key", [](SavedSession& s) { s.key[2] = '/'; }},
      {"model_digest", [](SavedSession& s) { s.model_digest.assign(1025, 'a'); }},
      {"numerics", [](SavedSession& s) { s.numerics = std::string("\xff"); }},
      {"caller", [](SavedSession& s) { s.caller.assign(1025, 'a'); }},
      {"caller", [](SavedSession& s) { s.caller = std::string("\xc3"); }},
      {"label", [](SavedSession& s) { s.label.assign(129, 'a'); }},
      {"label", [](SavedSession& s) { s.label = std::string("\xed\xa0\x80"); }},
      {"system.text", [](SavedSession& s) { s.system->text = std::string("\x80"); }},
      {"system.opening[1]", [](SavedSession& s) { s.system->opening[1] = -1; }},
      {"quota_bytes", [](SavedSession& s) { s.quota_bytes = -1; }},
      {"guarantee_bytes", [](SavedSession& s) { s.guarantee_bytes = -1; }},
      {"history[7]", [](SavedSession& s) { s.history[7] = std::numeric_limits<int>::min(); }},
      {"turns[0].begin", [](SavedSession& s) { s.turns[0].begin = 1; }},
      {"turns[0].begin", [](SavedSession& s) { s.turns[0].begin = -1; }},
      {"turns[1].begin", [](SavedSession& s) { s.turns[1].begin = 6; }},
      {"turns[1].begin", [](SavedSession& s) { s.turns[1].begin = 4; }},
      {"turns[0]", [](SavedSession& s) { s.turns[0].body = -1; }},
      {"turns[0]", [](SavedSession& s) { s.turns[0].body = 4; }},
      {"turns[1]", [](SavedSession& s) { s.turns[1].answer = 9; }},
      {"turns[1]", [](SavedSession& s) { s.turns[1].end = 9; }},
      {"turns[1]", [](SavedSession& s) { s.turns[1].end = std::numeric_limits<int>::max(); }},
      {"turns[1]", [](SavedSession& s) { s.turns[1].end = -5; }},
      {"turns", [](SavedSession& s) { s.turns.pop_back(); }},
      {"turns", [](SavedSession& s) { s.turns.clear(); }},
      {"turns", [](SavedSession& s) { s.history.push_back(1); }},
      {"turns[1].text", [](SavedSession& s) { s.turns[1].text = std::string("\xf0\x9f"); }},
      {"turns[1].after_system[0]", [](SavedSession& s) { s.turns[1].after_system[0] = -7; }},
      {"dropped_turns", [](SavedSession& s) { s.dropped_turns = 0xffffffff; }},
      {"generated_tokens", [](SavedSession& s) { s.generated_tokens = ~uint64_t{0}; }},
      {"seeds.drawn", [](SavedSession& s) { s.seeds.drawn = ~uint64_t{0}; }},
      {"created", [](SavedSession& s) { s.created = absl::InfinitePast(); }},
      {"last_active", [](SavedSession& s) { s.last_active = absl::InfiniteFuture(); }},
      {"last_active", [](SavedSession& s) { s.last_active = absl::FromUnixSeconds(253402300800); }},
  };
  for (const Case& c : cases) {
    SavedSession session = SmallSession();
    c.change(session);
    SCOPED_TRACE(absl::StrCat(c.field, ", case ", &c - cases.data()));
    ExpectRefused(EncodePayload(session), c.field);
  }
}

TEST(HostileSnapshotTest, SamplingOutsideItsLimitsIsRefusedByField) {
  struct Case {
    std::string field;
    std::function<void(sample::SamplingOverrides&)> change;
  };
  const std::vector<Case> cases = {
      {"temperature", [](auto& s) { s.temperature = kNan; }},
      {"temperature", [](auto& s) { s.temperature = -1.0f; }},
      {"top_k", [](auto& s) { s.top_k = -1; }},
      {"top_p", [](auto& s) { s.top_p = 0.0f; }},
      {"min_p", [](auto& s) { s.min_p = 2.0f; }},
      {"repetition_penalty", [](auto& s) { s.repetition_penalty = kNan; }},
      {"presence_penalty", [](auto& s) { s.presence_penalty = 3.0f; }},
      {"frequency_penalty", [](auto& s) { s.frequency_penalty = -3.0f; }},
      {"logit_bias", [](auto& s) { s.logit_bias->resize(1025); }},
      {"logit_bias[1]", [](auto& s) { (*s.logit_bias)[1].first = -1; }},
      {"logit_bias[0]", [](auto& s) { (*s.logit_bias)[0].second = kNan; }},
  };
  for (const Case& c : cases) {
    SavedSession session = SmallSession();
    c.change(session.default_sampling);
    SCOPED_TRACE(absl::StrCat(c.field, ", case ", &c - cases.data()));
    ExpectRefused(EncodePayload(session), absl::StrCat("default_sampling.", c.field));
  }
}

// What no SavedSession can hold is written into the message itself.
TEST(HostileSnapshotTest, MessagesThatAreNoSessionAreRefusedByField) {
  struct Case {
    std::string field;
    std::function<void(v1::Snapshot&)> change;
  };
  const std::vector<Case> cases = {
      {"context_policy", [](auto& m) { m.clear_context_policy(); }},
      {"context_policy", [](auto& m) { m.set_context_policy(static_cast<v1::ContextPolicy>(3)); }},
      {"default_sampling.logit_bias",
       [](auto& m) { m.mutable_default_sampling()->add_bias_tokens(1); }},
      {"default_sampling.logit_bias",
       [](auto& m) { m.mutable_default_sampling()->add_bias_values(1); }},
      {"default_sampling.logit_bias",
       [](auto& m) { m.mutable_default_sampling()->clear_has_logit_bias(); }},
      {"created", [](auto& m) { m.mutable_created()->set_nanos(1'000'000'000); }},
      {"created",
       [](auto& m) { m.mutable_created()->set_seconds(std::numeric_limits<int64_t>::max()); }},
      {"last_active",
       [](auto& m) { m.mutable_last_active()->set_seconds(std::numeric_limits<int64_t>::min()); }},
  };
  v1::Snapshot small;
  ASSERT_TRUE(small.ParseFromString(EncodePayload(SmallSession())));
  for (const Case& c : cases) {
    v1::Snapshot message = small;
    c.change(message);
    SCOPED_TRACE(absl::StrCat(c.field, ", case ", &c - cases.data()));
    ExpectRefused(message.SerializeAsString(), c.field);
  }
}

// Two bytes a turn on the wire, a hundred in memory.
TEST(HostileSnapshotTest, TurnsAreCountedBeforeTheyAreParsed) {
  constexpr char kEmptyTurn[] = {(v1::Snapshot::kTurnsFieldNumber << 3) | 2, 0};
  std::string payload = EncodePayload(SmallSession());
  for (size_t i = 0; i < kMaxSavedTurns - 1; ++i) payload.append(kEmptyTurn, 2);
  ExpectRefused(payload, "turns");
  const absl::Status status = DecodePayload(payload, "file x").status();
  EXPECT_EQ(status.message(), "file x: turns: 262145 entries; the limit is 262144");
}

TEST(HostileSnapshotTest, TurnsAreCountedBeforeWhatCannotBeParsed) {
  constexpr char kEmptyTurn[] = {(v1::Snapshot::kTurnsFieldNumber << 3) | 2, 0};
  std::string payload;
  for (size_t i = 0; i <= kMaxSavedTurns; ++i) payload.append(kEmptyTurn, 2);
  for (const char* end : {"\x0c", "\x0a\xff"}) ExpectRefused(payload + end, "turns");
}

TEST(HostileSnapshotTest, AHistoryBeyondTheLimitIsRefused) {
  v1::Snapshot message;
  message.set_key(KeyOf(1));
  message.set_context_policy(v1::CONTEXT_POLICY_REFUSE);
  message.mutable_history()->Resize(kMaxSavedTokens + 1, 1);
  ExpectRefused(message.SerializeAsString(), "history");
}

TEST(HostileSnapshotTest, APayloadThatIsNoMessageIsDataLoss) {
  const std::vector<std::string> payloads = {
      "\x0a\xff",                                          // a field longer than what is there
      "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  // a length of more than 64 bits
      std::string(1000, '\x0b'),                           // groups in groups in groups
      std::string("\x00\x00", 2),                          // field number 0
      "\x0c",                                              // the end of a group that never began
  };
  for (const std::string& payload : payloads) {
    const absl::Status status = DecodeSnapshot(SealPayload(payload), "file x").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  }
}

// Whatever is flipped in a payload whose checksum was made to fit: a session or a status.
TEST(HostileSnapshotTest, FlippedPayloadsWithAFittingChecksumNeverGetThroughUnchecked) {
  const std::string whole = EncodePayload(SmallSession());
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string payload = whole;
    payload[bit / 8] = static_cast<char>(payload[bit / 8] ^ (1 << bit % 8));
    const auto decoded = DecodeSnapshot(SealPayload(payload), "file x");
    if (!decoded.ok()) continue;
    EXPECT_TRUE(CheckSavedSession(*decoded).ok()) << "bit " << bit;
    ExpectSame(*DecodeSnapshot(EncodeSnapshot(*decoded), "file x"), *decoded);
  }
}

TEST(HostileSnapshotTest, RandomPayloadsNeverCrash) {
  RandomSessions random(7);
  for (int i = 0; i < 5000; ++i) {
    std::string payload(random.Below(200), '\0');
    for (char& byte : payload) byte = static_cast<char>(random.Word());
    EXPECT_FALSE(DecodeSnapshot(SealPayload(payload), "file x").ok());
  }
}

}  // namespace
}  // namespace luna::state
