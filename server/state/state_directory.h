// The directory that holds saved sessions: entries that are there whole or not at all.
#ifndef LUNA_SERVER_STATE_STATE_DIRECTORY_H_
#define LUNA_SERVER_STATE_STATE_DIRECTORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/state/unique_fd.h"

namespace luna::state {

inline constexpr char kEntrySuffix[] = ".luna-session";

struct StateEntry {
  std::string name;  // without the suffix
  int64_t size_bytes = 0;
  absl::Time modified;
};

// An entry is a file of mode 0600, "<name>.luna-session" (entry_name.h). Files of other names are
// left alone.
// Thread-safe; of writers of one name the last rename wins. Calls block on the disk.
//
// Statuses: NOT_FOUND for an entry that is not there, RESOURCE_EXHAUSTED where disk, quota or file
// size are used up, FAILED_PRECONDITION for what is in an entry's place and is no regular file
// (symbolic links are not followed), INTERNAL with the system's words for the rest.
class StateDirectory {
 public:
  // Makes the last component of `path` where it is missing, mode 0700; removes what a crash left of
  // writes that did not finish; holds the directory's lock until it is destroyed.
  // FAILED_PRECONDITION if `path` is no directory, is open to other users (the entries are
  // secrets, and so are their names), cannot be written, or is another server's; NOT_FOUND if what
  // it lies in is missing.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Open(const std::string& path);

  StateDirectory(const StateDirectory&) = delete;
  StateDirectory& operator=(const StateDirectory&) = delete;

  // Once it returns OK, the entry is on the disk and survives a loss of power. Where it fails or
  // the machine stops before, the entry is what it was, or, if only the last step was missing, the
  // new one; never a part of either. More than kMaxSnapshotBytes: INVALID_ARGUMENT, as for Read.
  absl::Status Write(std::string_view name, std::string_view bytes);

  absl::StatusOr<std::string> Read(std::string_view name) const;

  // NOT_FOUND too if there is no such entry.
  absl::Status Remove(std::string_view name);

  // Regular files with an entry's name; the most recently written first, then by name.
  absl::StatusOr<std::vector<StateEntry>> List() const;

  // Entries last written before `time`; how many were removed. One that cannot be removed does not
  // keep the others; the first such error is returned.
  absl::StatusOr<int> RemoveOlderThan(absl::Time time);

  const std::string& path() const { return path_; }

 private:
  StateDirectory(std::string path, UniqueFd directory, UniqueFd lock)
      : path_(std::move(path)), directory_(std::move(directory)), lock_(std::move(lock)) {}

  // The file names of the directory.
  absl::StatusOr<std::vector<std::string>> FileNames() const;
  absl::Status SweepTemporaries();
  absl::Status WriteTemporary(const std::string& temporary, std::string_view bytes) const;
  absl::Status Sync() const;

  const std::string path_;
  const UniqueFd directory_;
  const UniqueFd lock_;
  std::atomic<uint64_t> next_temporary_{0};
};

}  // namespace luna::state

#endif  // LUNA_SERVER_STATE_STATE_DIRECTORY_H_
