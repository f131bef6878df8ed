// Saved sessions without waiting for the disk: one thread does all that touches their files.
#ifndef LUNA_SERVER_STATE_STATE_KEEPER_H_
#define LUNA_SERVER_STATE_STATE_KEEPER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/engine/saved_session.h"
#include "server/state/failure_log.h"
#include "server/state/state_directory.h"

namespace luna::state {

struct KeeperOptions {
  // An entry that was last written longer ago is removed. Zero or infinite: it stays.
  absl::Duration ttl = absl::InfiniteDuration();
  // Of the entries under sessions' keys the most recently written stay, for sessions whose place
  // was taken leave theirs behind. Well above the sessions that may live.
  size_t max_keyed = 100'000;
  absl::Duration sweep_interval = absl::Minutes(10);  // of both, and at the start
  size_t max_awaited = 256;  // operations with a `done` that may be in the queue
  int max_named = 256;       // entries that one caller named (EntryOf)
};

struct KeeperCounts {
  uint64_t written = 0;   // entries, by Save and AutoSave
  uint64_t replaced = 0;  // what waited and was overtaken by what is newer, of the same session
  uint64_t removed = 0;   // by Remove
  uint64_t expired = 0;   // by ttl and max_keyed
  uint64_t failed = 0;    // of what nobody waits for
};

// Thread-safe; only Flush, Stop and the destructor wait. What is asked for of one name happens in
// the order in which it was asked. `done` is called exactly once: on the keeper's thread
// ("luna-files"), which it must not block for long, or, with UNAVAILABLE after Stop and
// RESOURCE_EXHAUSTED where the queue is full, on the caller's own before the method returns. It may
// ask for more, and must neither Flush nor Stop.
//
// AutoSave and Remove are never refused for want of room. Of one session at most one AutoSave
// waits, the latest, so as many wait as there are sessions; its failures are logged and counted.
class StateKeeper {
 public:
  using Done = std::function<void(absl::Status)>;
  using LoadDone = std::function<void(absl::StatusOr<engine::SavedSession>)>;
  // The key's entry, or why not, as Load says. False: no more.
  using EachEntry =
      std::function<bool(const std::string& key, absl::StatusOr<engine::SavedSession> session)>;

  // Borrows the clock.
  StateKeeper(std::unique_ptr<StateDirectory> directory, const Clock* clock,
              KeeperOptions options = {});
  // Stops.
  ~StateKeeper();
  StateKeeper(const StateKeeper&) = delete;
  StateKeeper& operator=(const StateKeeper&) = delete;

  // Writes the entry `name`, which replaces what it held. INVALID_ARGUMENT if the name is not one,
  // or is the key of another session, or the session is one that could not be read back
  // (CheckSavedSession); RESOURCE_EXHAUSTED if its caller has named as many as are kept; else as
  // StateDirectory::Write.
  void Save(engine::SavedSession session, std::string name, Done done);

  // As StateDirectory::Read and DecodeSnapshot; DATA_LOSS too if the name is the key of another
  // session than is in the entry.
  void Load(std::string name, LoadDone done);

  // As StateDirectory::Remove.
  void Remove(std::string name, Done done);

  // Under the session's key as name.
  void AutoSave(engine::SavedSession session);

  // Every entry under a session's key, which is that session's latest state; what somebody gave a
  // name waits until it is asked for. The most recently written first: `each` on the keeper's
  // thread, then `done`. What cannot be read stays as it is. The error of `done` is of listing
  // them.
  void LoadAll(EachEntry each, Done done);

  // Until all that was asked for before is done.
  void Flush();

  // Flushes, refuses what comes later, joins the thread. Idempotent; of one thread at a time.
  void Stop();

  KeeperCounts counts() const;

 private:
  struct SaveWork {
    engine::SavedSession session;
    Done done;
  };
  struct LoadWork {
    LoadDone done;
  };
  struct RemoveWork {
    Done done;
  };
  struct LoadAllWork {
    EachEntry each;
    Done done;
  };
  using Work = std::variant<SaveWork, RemoveWork, LoadWork, LoadAllWork>;
  struct Operation {
    std::string name;  // of the entry; empty: all of them
    Work work;
    bool awaited = false;
    uint64_t ticket = 0;
  };
  using Queue = std::list<Operation>;

  void PostAwaited(std::string name, Work work);
  static void Refuse(Work& work, const absl::Status& status);

  // The keeper's thread.
  void Run();
  // The next operation; none when it is time to look at the clock, or to end.
  Queue TakeNext(bool& ended);
  void Finished(uint64_t ticket, bool awaited);
  void SweepIfDue();
  absl::StatusOr<int> RemoveForgotten();
  void Do(const std::string& name, SaveWork& work);
  void Do(const std::string& name, RemoveWork& work);
  void Do(const std::string& name, LoadWork& work);
  void Do(const std::string& name, LoadAllWork& work);
  absl::Status WriteEntry(const std::string& name, const engine::SavedSession& session);
  // Whether one more entry may have this name.
  absl::Status CheckRoom(const std::string& name) const;
  absl::StatusOr<engine::SavedSession> ReadEntry(const std::string& name) const;
  void Failed(const char* doing, const absl::Status& status);
  void Count(uint64_t KeeperCounts::*counter, uint64_t by = 1);

  const std::unique_ptr<StateDirectory> directory_;
  const Clock* const clock_;
  const KeeperOptions options_;

  // Of the keeper's thread.
  absl::Time next_sweep_ = absl::InfinitePast();
  FailureLog failure_log_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;   // something is in the queue, or the end has come
  std::condition_variable finished_;  // an operation is
  // Guarded by mutex_.
  Queue queue_;
  // The last operation of a name in the queue, if nobody awaits it: what comes next of that name
  // takes its place.
  std::unordered_map<std::string, Queue::iterator> automatic_;
  size_t awaited_ = 0;  // in the queue or at work
  uint64_t last_ticket_ = 0;
  uint64_t finished_ticket_ = 0;  // tickets finish in their order
  KeeperCounts counts_;
  bool stopped_ = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace luna::state

#endif  // LUNA_SERVER_STATE_STATE_KEEPER_H_
