#include "tests/fakes/engine_bench.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
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

int UsualDepth() {
  const char* text = std::getenv("LUNA_DEPTH");
  int depth = 1;
  return text != nullptr && absl::SimpleAtoi(text, &depth) ? depth : 1;
}

EngineBench::EngineBench(Options options) : backend_(options.context_length) {
  backend_.set_depth(options.depth);
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

std::vector<Reader*> EngineBench::SubmitMany(engine::Request request, int count) {
  std::vector<Reader*> readers;
  std::vector<std::shared_ptr<engine::TokenStream>> streams;
  for (int i = 0; i < count; ++i) {
    readers_.push_back(std::make_unique<Reader>());
    readers.push_back(readers_.back().get());
    streams.push_back(readers.back()->stream);
  }
  engine_->SubmitMany(std::move(request), std::move(streams));
  return readers;
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

// Runs a command by a tick of its own; `call` is given where its result goes.
template <typename T, typename Call>
absl::StatusOr<T> EngineBench::Command(Call call) {
  absl::StatusOr<T> result = absl::UnknownError("not called");
  call(Into(result));
  Tick();
  return result;
}

absl::StatusOr<engine::SessionInfo> EngineBench::CreateSession(engine::SessionSpec spec) {
  return Command<engine::SessionInfo>(
      [&](auto done) { engine_->CreateSession(std::move(spec), done); });
}

absl::StatusOr<engine::SessionInfo> EngineBench::GetSession(const std::string& key) {
  return Command<engine::SessionInfo>([&](auto done) { engine_->GetSession(key, done); });
}

absl::StatusOr<std::vector<engine::SessionInfo>> EngineBench::ListSessions(
    const std::string& caller) {
  return Command<std::vector<engine::SessionInfo>>(
      [&](auto done) { engine_->ListSessions(caller, done); });
}

absl::StatusOr<engine::SessionInfo> EngineBench::UpdateSession(const std::string& key,
                                                               engine::SessionUpdate update) {
  return Command<engine::SessionInfo>(
      [&](auto done) { engine_->UpdateSession(key, std::move(update), done); });
}

absl::StatusOr<engine::SessionInfo> EngineBench::ResetSession(const std::string& key,
                                                              uint32_t to_turn) {
  return Command<engine::SessionInfo>(
      [&](auto done) { engine_->ResetSession(key, to_turn, done); });
}

absl::StatusOr<bool> EngineBench::CloseSession(const std::string& key) {
  return Command<bool>([&](auto done) { engine_->CloseSession(key, done); });
}

absl::StatusOr<engine::SessionInfo> EngineBench::ForkSession(const std::string& key,
                                                             engine::ForkSpec spec) {
  return Command<engine::SessionInfo>(
      [&](auto done) { engine_->ForkSession(key, std::move(spec), done); });
}

absl::StatusOr<engine::SavedSession> EngineBench::SaveSession(const std::string& key) {
  return Command<engine::SavedSession>([&](auto done) { engine_->SaveSession(key, done); });
}

absl::StatusOr<engine::SessionInfo> EngineBench::RestoreSession(engine::SavedSession saved,
                                                                engine::RestoreSpec spec) {
  return Command<engine::SessionInfo>(
      [&](auto done) { engine_->RestoreSession(std::move(saved), std::move(spec), done); });
}

absl::StatusOr<engine::SessionLimits> EngineBench::SetLimits(SessionId id,
                                                             engine::LimitsUpdate update) {
  return Command<engine::SessionLimits>([&](auto done) { engine_->SetLimits(id, update, done); });
}

absl::StatusOr<engine::Eviction> EngineBench::EvictSession(SessionId id, bool force) {
  return Command<engine::Eviction>([&](auto done) { engine_->EvictSession(id, force, done); });
}

absl::StatusOr<bool> EngineBench::Abort(const std::string& generation_id, bool keep_partial) {
  return Command<bool>([&](auto done) { engine_->Abort(generation_id, keep_partial, done); });
}

absl::StatusOr<uint32_t> EngineBench::Drain() {
  return Command<uint32_t>([&](auto done) { engine_->Drain(done); });
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
  int64_t split_bytes = 0;
  for (const engine::SessionMemory& session : snapshot_.sessions) {
    split_bytes += session.split_bytes;
    EXPECT_EQ(session.slack_bytes, session.charged_bytes - session.used_bytes);
    EXPECT_GE(session.slack_bytes, 0);
    EXPECT_LE(session.charged_bytes, std::max(session.quota_bytes, session.peak_bytes));
    EXPECT_EQ((session.private_blocks + session.shared_blocks) * pool.block_bytes,
              session.charged_bytes);
    EXPECT_LE(session.split_bytes, session.charged_bytes);
    if (!layout_.windowed()) {
      EXPECT_EQ(session.used_bytes % layout_.token_bytes(), 0);
      EXPECT_LE(session.used_bytes, session.tokens * layout_.token_bytes());
    }
  }
  EXPECT_EQ(split_bytes, pool.charged_blocks * pool.block_bytes);
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
