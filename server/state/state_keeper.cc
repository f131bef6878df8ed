#include "server/state/state_keeper.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "server/state/entry_name.h"
#include "server/state/saved_session_check.h"
#include "server/state/snapshot_format.h"

namespace luna::state {

StateKeeper::StateKeeper(std::unique_ptr<StateDirectory> directory, const Clock* clock,
                         KeeperOptions options)
    : directory_(std::move(directory)),
      clock_(clock),
      options_(options),
      failure_log_(clock),
      thread_([this] { Run(); }) {}

StateKeeper::~StateKeeper() { Stop(); }

// --- what anybody calls
// ---------------------------------------------------------------------------

void StateKeeper::Save(engine::SavedSession session, std::string name, Done done) {
  PostAwaited(std::move(name), SaveWork{std::move(session), std::move(done)});
}

void StateKeeper::Load(std::string name, LoadDone done) {
  PostAwaited(std::move(name), LoadWork{std::move(done)});
}

void StateKeeper::Remove(std::string name, Done done) {
  PostAwaited(std::move(name), RemoveWork{std::move(done)});
}

void StateKeeper::LoadAll(EachEntry each, Done done) {
  PostAwaited("", LoadAllWork{std::move(each), std::move(done)});
}

// A saved session is a whole state, so the later of two is all that has to be written.
void StateKeeper::AutoSave(engine::SavedSession session) {
  Queue posted;  // what it holds in the end goes after the lock, a session overtaken too
  std::string name = session.key;
  posted.push_back({.name = std::move(name), .work = SaveWork{std::move(session), {}}});
  {
    std::lock_guard lock(mutex_);
    if (stopped_) {
      ++counts_.failed;
      return;
    }
    const auto [last, is_new] = automatic_.try_emplace(posted.front().name, posted.begin());
    if (is_new) {
      posted.front().ticket = ++last_ticket_;
      queue_.splice(queue_.end(), posted);
    } else {
      std::swap(last->second->work, posted.front().work);
      ++counts_.replaced;
    }
  }
  changed_.notify_one();
}

void StateKeeper::PostAwaited(std::string name, Work work) {
  Queue posted;
  const bool may_be_refused = !std::holds_alternative<RemoveWork>(work);
  posted.push_back({.name = std::move(name), .work = std::move(work), .awaited = true});
  absl::Status refused;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) {
      refused = absl::UnavailableError("the server is shutting down");
    } else if (awaited_ >= options_.max_awaited && may_be_refused) {
      refused = WithRetryAfter(
          absl::ResourceExhaustedError(absl::StrCat(
              awaited_, " saves and restores are waiting for the disk, the most that may")),
          absl::Seconds(1));
    } else {
      // Nothing moves across it: what comes later of this name, or of any, queues behind.
      if (posted.front().name.empty()) {
        automatic_.clear();
      } else {
        automatic_.erase(posted.front().name);
      }
      posted.front().ticket = ++last_ticket_;
      ++awaited_;
      queue_.splice(queue_.end(), posted);
    }
  }
  if (refused.ok()) return changed_.notify_one();
  Refuse(posted.front().work, refused);
}

void StateKeeper::Refuse(Work& work, const absl::Status& status) {
  std::visit([&status](auto& refused) { refused.done(status); }, work);
}

void StateKeeper::Flush() {
  LUNA_CHECK(std::this_thread::get_id() != thread_.get_id()) << "it would wait for itself";
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this, ticket = last_ticket_] { return finished_ticket_ >= ticket; });
}

void StateKeeper::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

KeeperCounts StateKeeper::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

// --- the keeper's thread
// --------------------------------------------------------------------------

void StateKeeper::Run() {
  pthread_setname_np(pthread_self(), "luna-files");
  SweepIfDue();
  for (bool ended = false; !ended;) {
    Queue taken = TakeNext(ended);
    SweepIfDue();
    if (taken.empty()) continue;
    Operation& operation = taken.front();
    std::visit([&](auto& work) { Do(operation.name, work); }, operation.work);
    const uint64_t ticket = operation.ticket;
    const bool awaited = operation.awaited;
    taken.clear();  // what `done` holds is let go before Flush returns
    Finished(ticket, awaited);
  }
}

StateKeeper::Queue StateKeeper::TakeNext(bool& ended) {
  Queue taken;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoNanoseconds(options_.sweep_interval),
                    [this] { return !queue_.empty() || stopped_; });
  ended = stopped_ && queue_.empty();
  if (queue_.empty()) return taken;
  taken.splice(taken.begin(), queue_, queue_.begin());
  const auto last = automatic_.find(taken.front().name);
  if (last != automatic_.end() && last->second == taken.begin()) automatic_.erase(last);
  return taken;
}

void StateKeeper::Finished(uint64_t ticket, bool awaited) {
  {
    std::lock_guard lock(mutex_);
    finished_ticket_ = ticket;
    if (awaited) --awaited_;
  }
  finished_.notify_all();
}

void StateKeeper::SweepIfDue() {
  const absl::Time now = clock_->Now();
  if (now < next_sweep_) return;
  next_sweep_ = now + options_.sweep_interval;
  const absl::StatusOr<int> expired = RemoveForgotten();
  if (!expired.ok()) return Failed("removing saved sessions that are too old", expired.status());
  if (*expired == 0) return;
  spdlog::info("removed {} saved sessions that were too old", *expired);
  Count(&KeeperCounts::expired, *expired);
}

absl::StatusOr<int> StateKeeper::RemoveForgotten() {
  int removed = 0;
  if (options_.ttl > absl::ZeroDuration() && options_.ttl < absl::InfiniteDuration()) {
    LUNA_ASSIGN_OR_RETURN(removed, directory_->RemoveOlderThan(clock_->Now() - options_.ttl));
  }
  LUNA_ASSIGN_OR_RETURN(const std::vector<StateEntry> entries, directory_->List());
  size_t keyed = 0;
  for (const StateEntry& entry : entries) {
    if (!IsSessionKey(entry.name) || ++keyed <= options_.max_keyed) continue;
    LUNA_RETURN_IF_ERROR(directory_->Remove(entry.name));
    ++removed;
  }
  return removed;
}

absl::Status StateKeeper::WriteEntry(const std::string& name, const engine::SavedSession& session) {
  if (IsSessionKey(name) && name != session.key) {
    return InvalidField("name",
                        "32 hexadecimal digits are a session's id, and this is not this one's");
  }
  LUNA_RETURN_IF_ERROR(CheckSavedSession(session));
  LUNA_RETURN_IF_ERROR(CheckRoom(name));
  LUNA_RETURN_IF_ERROR(directory_->Write(name, EncodeSnapshot(session)));
  Count(&KeeperCounts::written);
  return absl::OkStatus();
}

absl::Status StateKeeper::CheckRoom(const std::string& name) const {
  const std::string_view owner = OwnerOf(name);
  if (owner.empty()) return absl::OkStatus();
  LUNA_ASSIGN_OR_RETURN(const std::vector<StateEntry> entries, directory_->List());
  int owned = 0;
  for (const StateEntry& entry : entries) {
    if (entry.name == name) return absl::OkStatus();  // it is replaced
    if (OwnerOf(entry.name) == owner) ++owned;
  }
  if (owned < options_.max_named) return absl::OkStatus();
  return WithRetryAfter(
      absl::ResourceExhaustedError(absl::StrCat(
          "this caller has ", owned, " saved sessions under names of its own, the most that are ",
          "kept; a name that is there already may be saved to")),
      options_.sweep_interval);
}

absl::StatusOr<engine::SavedSession> StateKeeper::ReadEntry(const std::string& name) const {
  LUNA_ASSIGN_OR_RETURN(const std::string bytes, directory_->Read(name));
  const std::string source = absl::StrCat("saved session '", ShownEntry(name), "'");
  LUNA_ASSIGN_OR_RETURN(engine::SavedSession session, DecodeSnapshot(bytes, source));
  if (IsSessionKey(name) && name != session.key) {
    return absl::DataLossError(
        absl::StrCat(source, ": it holds another session, ", ShownEntry(session.key)));
  }
  return session;
}

void StateKeeper::Do(const std::string& name, SaveWork& work) {
  const absl::Status status = WriteEntry(name, work.session);
  if (work.done) {
    work.done(status);
  } else if (!status.ok()) {
    Failed("saving a session that changed", status);
  }
}

void StateKeeper::Do(const std::string& name, RemoveWork& work) {
  const absl::Status status = directory_->Remove(name);
  if (status.ok()) Count(&KeeperCounts::removed);
  work.done(status);
}

void StateKeeper::Do(const std::string& name, LoadWork& work) { work.done(ReadEntry(name)); }

void StateKeeper::Do(const std::string&, LoadAllWork& work) {
  const absl::StatusOr<std::vector<StateEntry>> entries = directory_->List();
  if (!entries.ok()) return work.done(entries.status());
  for (const StateEntry& entry : *entries) {
    if (IsSessionKey(entry.name) && !work.each(entry.name, ReadEntry(entry.name))) break;
  }
  work.done(absl::OkStatus());
}

void StateKeeper::Failed(const char* doing, const absl::Status& status) {
  Count(&KeeperCounts::failed);
  failure_log_.Note(doing, status);
}

void StateKeeper::Count(uint64_t KeeperCounts::*counter, uint64_t by) {
  std::lock_guard lock(mutex_);
  counts_.*counter += by;
}

}  // namespace luna::state
