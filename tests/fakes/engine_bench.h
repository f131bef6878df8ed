// An engine on a bench: fake model, fake clock, ticks by hand, the ledger checked after each.
#ifndef LUNA_TESTS_FAKES_ENGINE_BENCH_H_
#define LUNA_TESTS_FAKES_ENGINE_BENCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/engine/engine.h"
#include "tests/fakes/fake_backend.h"
#include "tests/fakes/fake_tokenizer.h"

namespace luna::fakes {

// What a reader has got so far.
struct Answer {
  std::optional<engine::Accepted> accepted;
  std::optional<absl::Status> rejected;
  std::optional<engine::PromptDone> prompt;
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<engine::TokenLogprobs> logprobs;
  std::optional<engine::Finished> finished;
  int max_gap = 0;  // in ticks, between two tokens

  bool ended() const { return rejected.has_value() || finished.has_value(); }
};

// The reader of one generation; reads after every tick.
struct Reader {
  std::shared_ptr<engine::TokenStream> stream = std::make_shared<engine::TokenStream>();
  Answer answer;
  int ticks_since_token = 0;
};

// LUNA_DEPTH of the environment, so that a whole suite can be run with two steps in flight; else 1.
int UsualDepth();

struct BenchOptions {
  int context_length = 128;
  std::vector<int> windows = {0, 0};  // [num_layers]
  int block_tokens = 4;
  int num_blocks = 200;
  int depth = UsualDepth();      // of the backend: steps in flight
  engine::EngineOptions engine;  // layout and num_blocks are filled in
};

class EngineBench {
 public:
  using Options = BenchOptions;
  explicit EngineBench(Options options = {});
  // Everything has ended, is accounted for, and the backend met nothing odd.
  ~EngineBench();

  // --- Generations. ---
  Reader* Submit(engine::Request request);
  std::vector<Reader*> SubmitMany(engine::Request request, int count);
  // One tick after a millisecond; every reader reads, the ledger is checked.
  void Tick(int times = 1);
  void RunToEnd();
  // Submit and RunToEnd.
  Answer Run(engine::Request request);

  // --- The other commands, run by a tick of their own. ---
  absl::StatusOr<engine::SessionInfo> CreateSession(engine::SessionSpec spec = {});
  absl::StatusOr<engine::SessionInfo> GetSession(const std::string& key);
  absl::StatusOr<std::vector<engine::SessionInfo>> ListSessions(const std::string& caller);
  absl::StatusOr<engine::SessionInfo> UpdateSession(const std::string& key,
                                                    engine::SessionUpdate update);
  absl::StatusOr<engine::SessionInfo> ResetSession(const std::string& key, uint32_t to_turn = 0);
  absl::StatusOr<bool> CloseSession(const std::string& key);
  absl::StatusOr<engine::SessionInfo> ForkSession(const std::string& key,
                                                  engine::ForkSpec spec = {});
  absl::StatusOr<engine::SavedSession> SaveSession(const std::string& key);
  absl::StatusOr<engine::SessionInfo> RestoreSession(engine::SavedSession saved,
                                                     engine::RestoreSpec spec = {});
  absl::StatusOr<engine::SessionLimits> SetLimits(SessionId id, engine::LimitsUpdate update);
  absl::StatusOr<engine::Eviction> EvictSession(SessionId id, bool force = false);
  absl::StatusOr<bool> Abort(const std::string& generation_id, bool keep_partial = false);
  absl::StatusOr<uint32_t> Drain();
  // The end of the last tick.
  const engine::Snapshot& snapshot() const { return snapshot_; }
  engine::SessionMemory MemoryOf(const std::string& key) const;

  engine::Engine& engine() { return *engine_; }
  FakeBackend& backend() { return backend_; }
  FakeClock& clock() { return clock_; }
  const kv::KvLayout& layout() const { return layout_; }
  int64_t block_bytes() const { return layout_.block_bytes(); }
  int published() const { return published_; }

 private:
  template <typename T, typename Call>
  absl::StatusOr<T> Command(Call call);
  void TickOnce();
  void Read(Reader& reader);
  void CheckLedger();

  FakeClock clock_;
  FakeTokenizer tokenizer_;
  FakeBackend backend_;
  kv::KvLayout layout_;
  int published_ = 0;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<std::unique_ptr<Reader>> readers_;
  engine::Snapshot snapshot_;
};

// A request of `caller` with `text` as one raw prompt, greedy, of at most `max_tokens`.
engine::Request Ask(std::string_view text, int64_t max_tokens, std::string session_key = "");

}  // namespace luna::fakes

#endif  // LUNA_TESTS_FAKES_ENGINE_BENCH_H_
