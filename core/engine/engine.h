// The engine: one thread that owns all sessions, sequences and blocks, and one tick that advances
// the whole batch.
#ifndef LUNA_CORE_ENGINE_ENGINE_H_
#define LUNA_CORE_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "core/base/clock.h"
#include "core/engine/request.h"
#include "core/engine/saved_session.h"
#include "core/engine/session_info.h"
#include "core/engine/snapshot.h"
#include "core/engine/token_stream.h"
#include "core/kv/layout.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace luna::engine {

struct EngineOptions {
  kv::KvLayout layout;  // what Backend::AllocateKv was given
  int32_t num_blocks = 0;
  int max_batch_tokens = 512;  // a tick's budget: bounds how long a long prompt delays the others
  int max_running = 256;       // sequences in one step
  int max_sessions = 64;       // ephemeral ones are not counted
  // Where they are all taken, a new session takes the place of the one that has been idle longest,
  // if it has been for this long.
  absl::Duration session_idle_timeout = absl::InfiniteDuration();
  int queue_limit = 256;            // generations waiting; beyond: RESOURCE_EXHAUSTED + retry
  int64_t default_quota_bytes = 0;  // 0: blocks of one full context
  int64_t default_guarantee_bytes = 0;
  PrefixSharing prefix_sharing = PrefixSharing::kPeer;
  int prefix_hash_bits = 64;  // fewer: more collisions, for tests
  uint64_t seed = 0;          // from which unset request seeds are derived
  bool keep_kv = true;        // false: the lesson's other half, recomputes the whole text each step
  std::vector<TokenId> default_opening;  // begins a conversation that brings no opening of its own
  text::TurnMarkers markers;             // empty for a model without a chat template
  std::string model_digest;              // of saved sessions
  // On the engine thread, after what is worth saving of a session has changed. Neither blocks nor
  // calls the engine. May be empty.
  std::function<void(SavedSession)> on_changed = {};
};

// Public methods are thread-safe unless they say otherwise; they only put a command into the inbox.
// Results come through callbacks on the engine thread, which must neither block nor call the
// engine; a refusal because the inbox is full or closed comes on the caller's own, before the
// method returns. Every callback is called exactly once, at the latest by Stop (with UNAVAILABLE).
class Engine {
 public:
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  // Borrows everything; all must outlive the engine. `backend` has its KV allocated.
  // `on_published` is called at the end of a tick in which at least one stream got something, and
  // in the middle of one, where commands wait for a step in flight and that brought something.
  Engine(EngineOptions options, backend::Backend* backend, const text::Tokenizer* tokenizer,
         const Clock* clock, std::function<void()> on_published = {});
  ~Engine();

  // The outcome, refusal included, comes through `stream`: a full inbox or queue rejects with
  // RESOURCE_EXHAUSTED, a draining engine with UNAVAILABLE.
  void Submit(Request request, std::shared_ptr<TokenStream> stream);
  // A continuation for each stream, of one prompt that they share; without a session. The seeds of
  // those after the first are derived from its seed and their index (sample::DeriveSeed).
  void SubmitMany(Request request, std::vector<std::shared_ptr<TokenStream>> streams);
  // `done` gets whether it was live. Ends it by kCancelled.
  void Abort(std::string generation_id, bool keep_partial, Done<bool> done);

  void CreateSession(SessionSpec spec, Done<SessionInfo> done);
  void GetSession(std::string key, Done<SessionInfo> done);
  // Without the logit_bias of their defaults, which may be long.
  void ListSessions(std::string caller, Done<std::vector<SessionInfo>> done);
  void UpdateSession(std::string key, SessionUpdate update, Done<SessionInfo> done);
  void ResetSession(std::string key, uint32_t to_turn, Done<SessionInfo> done);
  void CloseSession(std::string key, Done<bool> done);
  void ForkSession(std::string key, ForkSpec spec, Done<SessionInfo> done);
  // ABORTED while a generation is live.
  void SaveSession(std::string key, Done<SavedSession> done);
  // FAILED_PRECONDITION if it is of another model, ALREADY_EXISTS if its key lives.
  void RestoreSession(SavedSession saved, RestoreSpec spec, Done<SessionInfo> done);

  // What operators do.
  void SetLimits(SessionRef session, LimitsUpdate update, Done<SessionLimits> done);
  void EvictSession(SessionRef session, bool force, Done<Eviction> done);

  // A picture of the end of the tick that runs the command. Of a step in flight then it shows the
  // blocks, but nothing as computed.
  void TakeSnapshot(Done<Snapshot> done);
  // Recounts every block from the tables; the differences in words, none if all is well.
  void CheckInvariants(Done<std::vector<std::string>> done);

  // Refuses new sessions and generations from now on; live ones finish. `done` gets how many live.
  void Drain(Done<uint32_t> done);

  // Starts the thread that ticks while there is work and sleeps otherwise.
  void Start();
  // Ends what is live with UNAVAILABLE and joins the thread. Idempotent.
  void Stop();

  // One turn of everything; false if there was nothing to do. Only for tests that do not Start().
  bool Tick();
  // Nothing live, waiting or in flight, nothing in the inbox. Only for tests that do not Start().
  bool Idle() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_ENGINE_H_
