// Sessions to save: one that is small, and random ones.
#ifndef LUNA_TESTS_SERVER_STATE_SAVED_SESSIONS_H_
#define LUNA_TESTS_SERVER_STATE_SAVED_SESSIONS_H_

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/engine/saved_session.h"

namespace luna::state {

inline std::string KeyOf(uint64_t n) { return absl::StrFormat("%032x", n); }

// Two turns, a system prompt and every kind of field, in few bytes.
inline engine::SavedSession SmallSession(uint64_t n = 7) {
  engine::SavedSession session;
  session.model_digest = "sha256:ab";
  session.numerics = "f32 avx2";
  session.key = KeyOf(n);
  session.caller = "ipv4:127.0.0.1";
  session.label = "민지";
  session.default_sampling.temperature = 0.5f;
  session.default_sampling.logit_bias = {{3, -1.5f}, {4, 2.0f}};
  session.default_sampling.seed = 42;
  session.system = engine::SystemPrompt{"너는 고양이.", {1, 2}};
  session.context_policy = engine::ContextPolicy::kDropOldest;
  session.quota_bytes = 1 << 20;
  session.guarantee_bytes = 1 << 19;
  session.seeds = {.base = 0xfeedfacecafebeef, .drawn = 2};
  session.history = {1, 2, 10, 11, 5, 12, 13, 14};
  session.turns = {
      {.begin = 0, .body = 2, .answer = 3, .end = 5, .text = "야옹", .after_system = {}},
      {.begin = 5, .body = 6, .answer = 7, .end = 8, .text = "!", .after_system = {9}}};
  session.has_system = true;
  session.dropped_turns = 1;
  session.generated_tokens = 30;
  session.created = absl::FromUnixNanos(1'700'000'000'123'456'789);
  session.last_active = session.created + absl::Seconds(90);
  return session;
}

class RandomSessions {
 public:
  explicit RandomSessions(uint32_t seed) : random_(seed) {}

  engine::SavedSession Next() {
    engine::SavedSession session;
    session.model_digest = Text(64);
    session.numerics = Text(200);
    session.key = absl::StrFormat("%016x%016x", Word(), Word());
    session.caller = Text(40);
    session.label = Text(31);  // of up to four bytes each
    session.default_sampling = Sampling();
    if (Coin()) session.system = engine::SystemPrompt{Text(300), Tokens(Below(50))};
    session.context_policy =
        Coin() ? engine::ContextPolicy::kRefuse : engine::ContextPolicy::kDropOldest;
    session.quota_bytes = Below(int64_t{1} << 40);
    session.guarantee_bytes = Below(int64_t{1} << 40);
    session.seeds = {.base = Word(), .drawn = Word() >> 2};
    AddTurns(session);
    session.has_system = Coin();
    session.dropped_turns = static_cast<uint32_t>(Below(1'000'000));
    session.generated_tokens = Word() >> 2;
    session.created = Time();
    session.last_active = Time();
    return session;
  }

  uint64_t Word() { return random_(); }
  int64_t Below(int64_t limit) { return static_cast<int64_t>(Word() % limit); }

 private:
  bool Coin() { return Below(2) == 0; }

  float Float(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }

  std::string Text(int64_t max_characters) {
    static constexpr const char* kCharacters[] = {"a", "\n", "é", "한", "글", "🌙", "\x01", " "};
    std::string text;
    for (int64_t n = Below(max_characters + 1); n > 0; --n) text += kCharacters[Below(8)];
    return text;
  }

  std::vector<TokenId> Tokens(int64_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(Below(int64_t{1} << 31));
    return tokens;
  }

  absl::Time Time() {
    return absl::FromUnixSeconds(Below(200'000'000'000) - 60'000'000'000) +
           absl::Nanoseconds(Below(1'000'000'000));
  }

  sample::SamplingOverrides Sampling() {
    sample::SamplingOverrides sampling;
    if (Coin()) sampling.temperature = Coin() ? -0.0f : Float(0, 100);
    if (Coin()) sampling.top_k = Below(1'000'000);
    if (Coin()) sampling.top_p = Float(0.01f, 1);
    if (Coin()) sampling.min_p = Float(0, 1);
    if (Coin()) sampling.repetition_penalty = Float(0.01f, 100);
    if (Coin()) sampling.presence_penalty = Float(-2, 2);
    if (Coin()) sampling.frequency_penalty = Coin() ? 1e-40f : Float(-2, 2);  // a denormal
    if (Coin()) sampling.seed = Word();
    if (Coin()) {
      sampling.logit_bias.emplace();
      for (const TokenId token : Tokens(Coin() ? 0 : Below(1025))) {
        sampling.logit_bias->emplace_back(token, Float(-100, 100));
      }
    }
    return sampling;
  }

  void AddTurns(engine::SavedSession& session) {
    int at = 0;
    for (int64_t n = Below(12); n > 0; --n) {
      engine::TurnRecord turn;
      turn.begin = at;
      turn.body = at += static_cast<int>(Below(4));
      turn.answer = at += static_cast<int>(Below(40));
      turn.end = at += static_cast<int>(Below(80));
      turn.text = Text(100);
      turn.after_system = Tokens(Coin() ? 0 : Below(40));
      session.turns.push_back(std::move(turn));
    }
    session.history = Tokens(at);
  }

  std::mt19937_64 random_;
};

inline std::optional<uint32_t> Bits(std::optional<float> value) {
  if (!value.has_value()) return std::nullopt;
  return std::bit_cast<uint32_t>(*value);
}

inline void ExpectSame(const sample::SamplingOverrides& a, const sample::SamplingOverrides& b) {
  const auto floats = [](const sample::SamplingOverrides& s) {
    return std::tuple(Bits(s.temperature), Bits(s.top_p), Bits(s.min_p), Bits(s.repetition_penalty),
                      Bits(s.presence_penalty), Bits(s.frequency_penalty));
  };
  EXPECT_EQ(floats(a), floats(b));
  EXPECT_EQ(std::tie(a.top_k, a.logit_bias, a.seed), std::tie(b.top_k, b.logit_bias, b.seed));
}

// Field by field, so that what the format forgets is seen.
inline void ExpectSame(const engine::SavedSession& a, const engine::SavedSession& b) {
  EXPECT_EQ(std::tie(a.model_digest, a.numerics, a.key, a.caller, a.label),
            std::tie(b.model_digest, b.numerics, b.key, b.caller, b.label));
  ExpectSame(a.default_sampling, b.default_sampling);
  ASSERT_EQ(a.system.has_value(), b.system.has_value());
  if (a.system) {
    EXPECT_EQ(std::tie(a.system->text, a.system->opening),
              std::tie(b.system->text, b.system->opening));
  }
  EXPECT_EQ(a.context_policy, b.context_policy);
  EXPECT_EQ(std::tie(a.quota_bytes, a.guarantee_bytes, a.seeds.base, a.seeds.drawn),
            std::tie(b.quota_bytes, b.guarantee_bytes, b.seeds.base, b.seeds.drawn));
  EXPECT_EQ(a.history, b.history);
  ASSERT_EQ(a.turns.size(), b.turns.size());
  for (size_t i = 0; i < a.turns.size(); ++i) {
    const auto fields = [](const engine::TurnRecord& t) {
      return std::tie(t.begin, t.body, t.answer, t.end, t.text, t.after_system);
    };
    EXPECT_EQ(fields(a.turns[i]), fields(b.turns[i])) << "turn " << i;
  }
  EXPECT_EQ(std::tie(a.has_system, a.dropped_turns, a.generated_tokens, a.created, a.last_active),
            std::tie(b.has_system, b.dropped_turns, b.generated_tokens, b.created, b.last_active));
}

}  // namespace luna::state

#endif  // LUNA_TESTS_SERVER_STATE_SAVED_SESSIONS_H_
