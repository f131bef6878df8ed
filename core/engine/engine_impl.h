// The engine behind its face. One file for each question:
//   engine.cc            the face, the thread, the tick
//   submit.cc            may this request begin, and how long may it become
//   step.cc              one step of the batch, and what it brought
//   finish.cc            how a generation ends
//   session_commands.cc  what callers do to sessions
//   saved_session.cc     forks, and what outlives the server
//   limits.cc            quotas, guarantees, evictions
//   snapshot.cc          what is held and what is going on; does it add up
#ifndef LUNA_CORE_ENGINE_ENGINE_IMPL_H_
#define LUNA_CORE_ENGINE_ENGINE_IMPL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/bounded_queue.h"
#include "core/batch/batch.h"
#include "core/engine/engine.h"
#include "core/engine/generation.h"
#include "core/engine/rate_meter.h"
#include "core/engine/session_table.h"
#include "core/engine/token_limits.h"
#include "core/kv/block_pool.h"
#include "core/kv/prefix_index.h"
#include "core/sched/scheduler.h"

namespace luna::engine {

class Engine::Impl {
 public:
  Impl(EngineOptions options, backend::Backend* backend, const text::Tokenizer* tokenizer,
       const Clock* clock, std::function<void()> on_published);

  // --- Any thread. ---

  // One entry of the inbox: exactly one of the two is called.
  struct Command {
    std::function<void()> run;
    std::function<void(absl::Status)> refuse;
    bool only_looks = false;  // may run while a step is in flight
  };
  void Post(Command command);
  // `ask` runs on the engine thread and gives what `done` is told.
  template <typename T>
  void Ask(Done<T> done, std::function<absl::StatusOr<T>()> ask) {
    Post({.run = [done, ask = std::move(ask)] { done(ask()); },
          .refuse = [done](absl::Status status) { done(std::move(status)); }});
  }
  void Start();
  void Stop();

  // --- Engine thread, or whoever calls Tick by hand. ---
  bool Tick();
  bool Idle() const { return live_.empty() && inbox_.empty() && num_flights_ == 0; }

  // submit.cc
  void Submit(Request request, std::shared_ptr<TokenStream> stream);
  void SubmitMany(Request request, const std::vector<std::shared_ptr<TokenStream>>& streams);
  // finish.cc
  bool Abort(const std::string& generation_id, bool keep_partial);
  // session_commands.cc
  absl::StatusOr<SessionInfo> CreateSession(SessionSpec spec);
  bool CloseForgotten(const Session* but_not);
  absl::StatusOr<SessionInfo> GetSession(const std::string& key);
  std::vector<SessionInfo> ListSessions(const std::string& caller) const;
  absl::StatusOr<SessionInfo> UpdateSession(const std::string& key, SessionUpdate update);
  absl::StatusOr<SessionInfo> ResetSession(const std::string& key, uint32_t to_turn);
  absl::StatusOr<bool> CloseSession(const std::string& key);
  uint32_t Drain();
  // saved_session.cc
  absl::StatusOr<SessionInfo> ForkSession(const std::string& key, const ForkSpec& spec);
  absl::StatusOr<SavedSession> SaveSession(const std::string& key) const;
  absl::StatusOr<SessionInfo> RestoreSession(const SavedSession& saved, const RestoreSpec& spec);
  // limits.cc
  absl::StatusOr<SessionLimits> SetLimits(const SessionRef& ref, const LimitsUpdate& update);
  absl::StatusOr<Eviction> EvictSession(const SessionRef& ref, bool force);
  // snapshot.cc
  void AddSnapshotRequest(Done<Snapshot> done) { snapshot_requests_.push_back(std::move(done)); }
  std::vector<std::string> CheckInvariants() const;

 private:
  enum class Turn { kCommit, kDiscard };

  // engine.cc
  void Loop();
  void RunCommands();
  void WakeWriter();
  void Shutdown();

  // submit.cc
  struct Continuation {
    size_t index = 0, count = 1;
    // Of the first one, for those after it.
    std::optional<std::string> scope = {};
    uint64_t seed = 0;
  };
  absl::Status TrySubmit(const Request& request, std::shared_ptr<TokenStream>& stream,
                         Continuation& continuation);
  absl::Status CheckMayBegin(const Request& request) const;
  absl::StatusOr<Session*> SessionFor(const Request& request, const Continuation& continuation);
  absl::Status Begin(const Request& request, Session& session, std::shared_ptr<TokenStream>& stream,
                     Continuation& continuation);
  uint64_t SeedFor(Session& session, const sample::SamplingOverrides& overrides,
                   Continuation& continuation);
  std::unique_ptr<Generation> NewGeneration(const Request& request, Session& session,
                                            TurnDraft draft, Limit limit,
                                            std::shared_ptr<TokenStream> stream);
  Generation& Enlist(std::unique_ptr<Generation> generation);
  absl::Status CheckTokens(const Request& request) const;
  absl::Status CheckIds(const std::vector<TokenId>& tokens, const char* field) const;
  int64_t RoomForPrompt(const TokenLimits& limits, const sample::StopParams& stopping) const;
  absl::Status QueueFull(size_t waiting) const;
  absl::Status CheckLine(uint64_t caller, size_t count) const;
  absl::Status StandInLine(Generation& generation);
  uint64_t NextSeed();

  // step.cc
  // A step between its launch and its commit.
  struct Flight {
    const sched::StepPlan* plan = nullptr;
    absl::Time begin;
    absl::Status launched;  // not OK: the backend does not have it
  };
  void EndCancelledAndLate();
  void RunStep();
  bool MayLaunchAhead() const;
  void Launch(const sched::StepPlan& plan);
  absl::Status CopyBlocks(std::span<const kv::BlockCopy> copies);
  void FinishOldest();
  // Finishes what is in flight.
  void Settle();
  absl::Status Collect(const sched::StepPlan& plan);
  void NoteStart(const sched::StepPlan& plan);
  void NotePeaks(const sched::StepPlan& plan);
  void FailStep(const sched::StepPlan& plan, const absl::Status& status);
  void Publish(const std::vector<sched::Outcome>& outcomes);
  void PublishToken(Generation& generation, const sched::Outcome& outcome);
  void CountStep(const sched::StepPlan& plan, absl::Time begin);

  // finish.cc
  void EndByItself(Generation& generation, const sched::Ending& ending);
  void EndWithError(Generation& generation, absl::Status status);
  // The one way out: takes it from the scheduler, settles the turn, tells the reader, forgets it.
  void End(Generation& generation, Finished finished, Turn turn);
  Usage UsageOf(const Generation& generation) const;
  void CloseSession(Session& session);

  // session_commands.cc
  absl::StatusOr<Session*> FindSession(const std::string& key) const;
  // `what` waits for the end of the generation that lives; `turn` is one that it has.
  static absl::Status CheckNotLive(const Session& session, const char* what);
  static absl::Status CheckTurn(const Session& session, uint32_t turn, const char* field);
  // In the place of one that was forgotten, if need be, but not of `but_not`.
  absl::Status MakeRoomForSession(const Session* but_not = nullptr);
  absl::Status CheckRoomForSession() const;
  std::string ScopeOf(const std::string& caller) const;
  void NoteChanged(const Session& session) const;
  absl::Status CheckSampling(const sample::SamplingOverrides& sampling) const;
  absl::StatusOr<int64_t> QuotaBlocks(int64_t quota_bytes) const;
  SessionInfo InfoOf(const Session& session) const;

  // saved_session.cc
  SavedSession Export(const Session& session) const;
  absl::Status CheckSaved(const SavedSession& saved) const;
  absl::Status CheckFitsContext(size_t size, const char* of) const;

  // limits.cc
  absl::StatusOr<Session*> FindSession(const SessionRef& ref) const;
  absl::Status CheckGuarantee(int64_t blocks, int64_t quota_blocks, int64_t instead_of) const;
  void SetQuota(Session& session, int64_t quota_blocks);
  void SetGuarantee(Session& session, int64_t blocks);

  // snapshot.cc
  Snapshot TakeSnapshot() const;
  SessionMemory MemoryOf(const Session& session, std::vector<int32_t>& seen) const;
  Load CurrentLoad() const;
  SessionState StateOf(const Session& session) const;

  int context() const { return backend_->info().context_length; }
  TokenLimits LimitsFor(const Session& session) const;

  const EngineOptions options_;
  backend::Backend* const backend_;
  const text::Tokenizer* const tokenizer_;
  const Clock* const clock_;
  const std::function<void()> on_published_;
  const int64_t default_quota_blocks_;
  const int64_t default_guarantee_blocks_;

  BoundedQueue<Command> inbox_;
  std::thread thread_;

  // Everything below belongs to the engine thread. What is borrowed stands before who borrows it.
  kv::BlockPool blocks_;
  sched::Scheduler scheduler_;
  kv::PrefixIndex prefixes_;
  SessionTable sessions_;
  std::map<SequenceId, std::unique_ptr<Generation>> live_;
  absl::flat_hash_map<std::string, Generation*> by_id_;
  absl::flat_hash_set<std::pair<std::string, std::string>> request_ids_;  // caller, request_id

  std::vector<Command> commands_;  // of this tick
  std::vector<Done<Snapshot>> snapshot_requests_;
  std::array<Flight, 2> flights_;       // the oldest first
  int num_flights_ = 0;                 // between ticks at most one, and none where depth() is 1
  std::deque<kv::BlockCopy> uncopied_;  // empty unless the backend failed to copy
  absl::Time step_end_ = absl::InfinitePast();  // of the last step that was finished
  batch::Batch batch_;                          // of the newest step
  batch::StepResult result_;
  TokenLogprobs logprobs_;  // scratch of PublishToken

  bool draining_ = false;
  bool published_ = false;  // a stream got something in this tick
  uint64_t tick_ = 0;
  uint64_t steps_ = 0;  // launched
  uint64_t last_sequence_ = 0;
  uint64_t seeds_given_ = 0;
  uint64_t total_tokens_ = 0, total_prompt_tokens_ = 0, finished_ = 0;
  RateMeter token_rate_, prompt_rate_;
  double step_ms_ = 0;        // moving average
  absl::Time started_, now_;  // now_: of this tick
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_ENGINE_IMPL_H_
