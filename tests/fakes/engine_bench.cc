#include "tests/fakes/engine_bench.h"

#include <algorithm>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::fakes {
namespace {

// A reader who waits longer than this waits for ever.
constexpr int kPatience = 200'000;

template <typename T>
engine::Engine::Done<T> Into(absl::StatusOr<T>& result) {
  return [&result](absl::StatusOr<T> value) { result = std::move(value); };
}

}  // namespace

EngineBench::EngineBench(Options options) : backend_(options.context_length) {
  layout_ = kv::MakeLayout(options.windows, options.block_tokens, backend_.token_layer_bytes());
  EXPECT_TRUE(backend_.AllocateKv(layout_, options.num_blocks).ok());
  options.engine.layout = layout_;
  options.engine.num_blocks = options.num_blocks;
  engine_ = std::make_unique<engine::Engine>(options.engine, &backend_, &tokenizer_, &clock_,
                                             [this] { ++published_; });
}

EngineBench::~EngineBench() {
  RunToEnd();
  Tick();
  EXPECT_EQ(snapshot_.load.running, 0u);
  EXPECT_EQ(snapshot_.load.waiting, 0u);
  for (const engine::SessionMemory& session : snapshot_.sessions) {
    EXPECT_EQ(session.state, engine::SessionState::kIdle);
    EXPECT_FALSE(session.ephemeral);
  }
  EXPECT_THAT(backend_.faults(), testing::IsEmpty());
}

Reader* EngineBench::Submit(engine::Request request) {
  readers_.push_back(std::make_unique<Reader>());
  Reader* reader = readers_.back().get();
  engine_->Submit(std::move(request), reader->stream);
  return reader;
}

void EngineBench::Read(Reader& reader) {
  engine::TokenStream::Taken taken;
  reader.stream->TakeAll(taken);
  Answer& answer = reader.answer;
  if (answer.ended()) {
    EXPECT_FALSE(taken.accepted || taken.rejected || taken.prompt || taken.finished)
        << "after the end";
    EXPECT_TRUE(taken.delta.empty()) << "after the end";
    return;
  }
  if (taken.accepted.has_value()) answer.accepted = std::move(taken.accepted);
  if (taken.rejected.has_value()) answer.rejected = std::move(taken.rejected);
  if (taken.prompt.has_value()) answer.prompt = taken.prompt;
  if (!taken.delta.tokens.empty()) {
    if (!answer.tokens.empty()) answer.max_gap = std::max(answer.max_gap, reader.ticks_since_token);
    reader.ticks_since_token = 0;
  }
  answer.text += taken.delta.text;
  answer.tokens.insert(answer.tokens.end(), taken.delta.tokens.begin(), taken.delta.tokens.end());
  for (engine::TokenLogprobs& logprobs : taken.delta.logprobs) {
    answer.logprobs.push_back(std::move(logprobs));
  }
  if (taken.finished.has_value()) answer.finished = std::move(taken.finished);
  EXPECT_FALSE(answer.rejected.has_value() && answer.accepted.has_value());
  EXPECT_TRUE(answer.accepted.has_value() || !answer.finished.has_value());
}

void EngineBench::TickOnce() {
  clock_.Advance(absl::Milliseconds(1));
  for (const auto& reader : readers_) ++reader->ticks_since_token;
  absl::StatusOr<std::vector<std::string>> differences = absl::UnknownError("not called");
  absl::StatusOr<engine::Snapshot> snapshot = absl::UnknownError("not called");
  engine_->CheckInvariants(Into(differences));
  engine_->TakeSnapshot(Into(snapshot));
  engine_->Tick();
  ASSERT_TRUE(differences.ok() && snapshot.ok());
  EXPECT_THAT(*differences, testing::IsEmpty());
  snapshot_ = *std::move(snapshot);
  CheckLedger();
  for (const auto& reader : readers_) Read(*reader);
}

void EngineBench::Tick(int times) {
  for (int i = 0; i < times; ++i) TickOnce();
}

void EngineBench::RunToEnd() {
  for (int i = 0; !engine_->Idle(); ++i) {
    ASSERT_LT(i, kPatience) << "the engine does not come to an end";
    Tick();
  }
}

Answer EngineBench::Run(engine::Request request) {
  Reader* reader = Submit(std::move(request));
  RunToEnd();
  return reader->answer;
}

absl::StatusOr<engine::SessionInfo> EngineBench::CreateSession(engine::SessionSpec spec) {
  absl::StatusOr<engine::SessionInfo> result = absl::UnknownError("not called");
  engine_->CreateSession(std::move(spec), Into(result));
  Tick();
  return result;
}

absl::StatusOr<engine::SessionInfo> EngineBench::GetSession(const std::string& key) {
  absl::StatusOr<engine::SessionInfo> result = absl::UnknownError("not called");
  engine_->GetSession(key, Into(result));
  Tick();
  return result;
}

absl::StatusOr<std::vector<engine::SessionInfo>> EngineBench::ListSessions(
    const std::string& caller) {
  absl::StatusOr<std::vector<engine::SessionInfo>> result = absl::UnknownError("not called");
  engine_->ListSessions(caller, Into(result));
  Tick();
  return result;
}

absl::StatusOr<engine::SessionInfo> EngineBench::UpdateSession(const std::string& key,
                                                               engine::SessionUpdate update) {
  absl::StatusOr<engine::SessionInfo> result = absl::UnknownError("not called");
  engine_->UpdateSession(key, std::move(update), Into(result));
  Tick();
  return result;
}

absl::StatusOr<engine::SessionInfo> EngineBench::ResetSession(const std::string& key,
                                                              uint32_t to_turn) {
  absl::StatusOr<engine::SessionInfo> result = absl::UnknownError("not called");
  engine_->ResetSession(key, to_turn, Into(result));
  Tick();
  return result;
}

absl::StatusOr<bool> EngineBench::CloseSession(const std::string& key) {
  absl::StatusOr<bool> result = absl::UnknownError("not called");
  engine_->CloseSession(key, Into(result));
  Tick();
  return result;
}

absl::StatusOr<bool> EngineBench::Abort(const std::string& generation_id, bool keep_partial) {
  absl::StatusOr<bool> result = absl::UnknownError("not called");
  engine_->Abort(generation_id, keep_partial, Into(result));
  Tick();
  return result;
}

absl::StatusOr<uint32_t> EngineBench::Drain() {
  absl::StatusOr<uint32_t> result = absl::UnknownError("not called");
  engine_->Drain(Into(result));
  Tick();
  return result;
}

engine::SessionMemory EngineBench::MemoryOf(const std::string& key) const {
  for (const engine::SessionMemory& session : snapshot_.sessions) {
    if (session.key == key) return session;
  }
  ADD_FAILURE() << "no session " << key;
  return {};
}

// To the byte, at every tick.
void EngineBench::CheckLedger() {
  const engine::PoolMemory& pool = snapshot_.pool;
  EXPECT_EQ(pool.free_blocks + pool.cached_blocks + pool.charged_blocks, pool.total_blocks);
  int64_t charged_bytes = 0;
  for (const engine::SessionMemory& session : snapshot_.sessions) {
    charged_bytes += session.charged_bytes;
    EXPECT_EQ(session.used_bytes, session.charged_bytes - session.slack_bytes);
    EXPECT_GE(session.slack_bytes, 0);
    EXPECT_LE(session.charged_bytes, std::max(session.quota_bytes, session.peak_bytes));
    EXPECT_EQ(session.private_blocks * pool.block_bytes, session.charged_bytes);
    if (!layout_.windowed()) {
      EXPECT_EQ(session.used_bytes % layout_.token_bytes(), 0);
      EXPECT_LE(session.used_bytes, session.tokens * layout_.token_bytes());
    }
  }
  EXPECT_EQ(charged_bytes, pool.charged_blocks * pool.block_bytes);
}

engine::Request Ask(std::string_view text, int64_t max_tokens, std::string session_key) {
  engine::Request request;
  request.caller = "test";
  request.session_key = std::move(session_key);
  request.input.tokens = Bytes(text);
  request.input.raw = true;
  request.sampling.temperature = 0.0f;
  request.stopping.max_tokens = max_tokens;
  return request;
}

}  // namespace luna::fakes
