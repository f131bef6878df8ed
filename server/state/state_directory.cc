#include "server/state/state_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "server/state/entry_name.h"
#include "server/state/snapshot_format.h"

namespace luna::state {
namespace {

constexpr char kLockName[] = ".lock";
constexpr char kTemporaryPrefix[] = ".tmp-";
constexpr mode_t kOtherUsers = 0077;
constexpr mode_t kOwnerWrites = 0300;

// `error` is errno's value, `what` what was tried: "writing saved session 'x'".
absl::Status SystemError(int error, std::string_view what) {
  const std::string message =
      absl::StrCat(AbslView(what), ": ", std::generic_category().message(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    case ELOOP:  // O_NOFOLLOW met a symbolic link
    case EISDIR:
    case ENOTDIR:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

// Repeats `call` while a signal interrupts it.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

std::string FileName(std::string_view name) { return absl::StrCat(AbslView(name), kEntrySuffix); }

std::string Doing(std::string_view what, std::string_view name) {
  return absl::StrCat(AbslView(what), " saved session '", ShownEntry(name), "'");
}

absl::Status NoSuchEntry(std::string_view name) {
  return absl::NotFoundError(absl::StrCat("there is no saved session '", ShownEntry(name), "'"));
}

absl::Status CheckMode(const std::string& path, int directory, const struct stat& info) {
  const std::string mode = absl::StrFormat("%04o", info.st_mode & 07777);
  if ((info.st_mode & kOtherUsers) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "state directory ", path, " has mode ", mode,
        " and is open to other users; saved sessions are secret, so it takes 0700 (chmod 700)"));
  }
  if ((info.st_mode & kOwnerWrites) != kOwnerWrites ||
      faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", path, " has mode ", mode, " and cannot be written"));
  }
  return absl::OkStatus();
}

// On the disk with all that leads to it.
absl::Status MakeDirectory(const std::string& path) {
  const std::string doing = absl::StrCat("making state directory ", path);
  if (mkdir(path.c_str(), 0700) != 0) {
    return errno == EEXIST ? absl::OkStatus() : SystemError(errno, doing);
  }
  const std::string parent = std::filesystem::absolute(path).parent_path();
  const UniqueFd fd(
      Retry([&] { return open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd.ok() || Retry([&] { return fsync(fd.get()); }) != 0) return SystemError(errno, doing);
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenDirectory(const std::string& path) {
  LUNA_RETURN_IF_ERROR(MakeDirectory(path));
  UniqueFd directory(Retry([&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  struct stat info;
  if (!directory.ok() || fstat(directory.get(), &info) != 0) {
    return SystemError(errno, absl::StrCat("opening state directory ", path));
  }
  LUNA_RETURN_IF_ERROR(CheckMode(path, directory.get(), info));
  return directory;
}

// The lock goes with the descriptor, however the process ends.
absl::StatusOr<UniqueFd> LockDirectory(const std::string& path, int directory) {
  UniqueFd lock(Retry([&] {
    return openat(directory, kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  }));
  if (!lock.ok()) return SystemError(errno, absl::StrCat("locking state directory ", path));
  if (Retry([&] { return flock(lock.get(), LOCK_EX | LOCK_NB); }) == 0) return lock;
  if (errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", path, " is in use by another server; each needs its own"));
  }
  return SystemError(errno, absl::StrCat("locking state directory ", path));
}

// 0, or errno's value.
int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = Retry([&] { return write(fd, bytes.data(), bytes.size()); });
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& doing) {
  std::string bytes;
  while (true) {
    constexpr size_t kStep = size_t{64} << 10;
    const size_t size = bytes.size();
    bytes.resize(size + kStep);
    const ssize_t got = Retry([&] { return read(fd, bytes.data() + size, kStep); });
    if (got < 0) return SystemError(errno, doing);
    bytes.resize(size + static_cast<size_t>(got));
    if (got == 0) return bytes;
    if (bytes.size() > kMaxSnapshotBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(doing, ": it has more than ", kMaxSnapshotBytes, " bytes, the limit"));
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Open(const std::string& path) {
  LUNA_ASSIGN_OR_RETURN(UniqueFd directory, OpenDirectory(path));
  LUNA_ASSIGN_OR_RETURN(UniqueFd lock, LockDirectory(path, directory.get()));
  std::unique_ptr<StateDirectory> state(
      new StateDirectory(path, std::move(directory), std::move(lock)));
  LUNA_RETURN_IF_ERROR(state->SweepTemporaries());
  return state;
}

absl::StatusOr<std::vector<std::string>> StateDirectory::FileNames() const {
  const std::string doing = absl::StrCat("listing state directory ", path_);
  // A descriptor of its own: a shared one would share its position too.
  UniqueFd fd(
      Retry([&] { return openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd.ok()) return SystemError(errno, doing);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(fd.get()), closedir);
  if (stream == nullptr) return SystemError(errno, doing);
  fd.Release();  // the stream's now
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(stream.get());
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  if (errno != 0) return SystemError(errno, doing);
  return names;
}

absl::Status StateDirectory::SweepTemporaries() {
  LUNA_ASSIGN_OR_RETURN(const std::vector<std::string> names, FileNames());
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, kTemporaryPrefix)) continue;
    if (unlinkat(directory_.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
      return SystemError(errno, absl::StrCat("removing ", path_, "/", name));
    }
  }
  return absl::OkStatus();
}

absl::Status StateDirectory::Sync() const {
  if (Retry([&] { return fsync(directory_.get()); }) == 0) return absl::OkStatus();
  return SystemError(errno, "putting the state directory on the disk");
}

absl::Status StateDirectory::WriteTemporary(const std::string& temporary,
                                            std::string_view bytes) const {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd file(Retry([&] { return openat(directory_.get(), temporary.c_str(), kFlags, 0600); }));
  if (!file.ok()) return SystemError(errno, "making its file");
  if (const int error = WriteAll(file.get(), bytes); error != 0) {
    return SystemError(error, absl::StrCat("writing its ", bytes.size(), " bytes"));
  }
  // Before the rename: else a loss of power may leave the new name with no content.
  if (Retry([&] { return fsync(file.get()); }) != 0) {
    return SystemError(errno, absl::StrCat("putting its ", bytes.size(), " bytes on the disk"));
  }
  // Some file systems say only now that there was no room.
  if (close(file.Release()) != 0 && errno != EINTR) return SystemError(errno, "closing its file");
  return absl::OkStatus();
}

absl::Status StateDirectory::Write(std::string_view name, std::string_view bytes) {
  LUNA_RETURN_IF_ERROR(CheckEntryName(name));
  if (bytes.size() > kMaxSnapshotBytes) {
    return absl::InvalidArgumentError(absl::StrCat(Doing("writing", name), ": it has ",
                                                   bytes.size(), " bytes; the limit is ",
                                                   kMaxSnapshotBytes));
  }
  const std::string temporary = absl::StrCat(kTemporaryPrefix, next_temporary_++);
  absl::Status status = WriteTemporary(temporary, bytes);
  if (status.ok() && renameat(directory_.get(), temporary.c_str(), directory_.get(),
                              FileName(name).c_str()) != 0) {
    status = SystemError(errno, "putting its file in place");
  }
  if (status.ok()) {
    status = Sync();
  } else {
    unlinkat(directory_.get(), temporary.c_str(), 0);
  }
  if (status.ok()) return status;
  // What is not there is the directory, not what was asked for.
  const absl::StatusCode code =
      absl::IsNotFound(status) ? absl::StatusCode::kInternal : status.code();
  return absl::Status(code, absl::StrCat(Doing("writing", name), ": ", status.message()));
}

absl::StatusOr<std::string> StateDirectory::Read(std::string_view name) const {
  LUNA_RETURN_IF_ERROR(CheckEntryName(name));
  const std::string doing = Doing("reading", name);
  // O_NONBLOCK: a pipe in an entry's place would wait for its writer.
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const UniqueFd file(
      Retry([&] { return openat(directory_.get(), FileName(name).c_str(), kFlags); }));
  if (!file.ok() && errno == ENOENT) return NoSuchEntry(name);
  struct stat info;
  if (!file.ok() || fstat(file.get(), &info) != 0) return SystemError(errno, doing);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(doing, ": it is no regular file"));
  }
  return ReadAll(file.get(), doing);
}

absl::Status StateDirectory::Remove(std::string_view name) {
  LUNA_RETURN_IF_ERROR(CheckEntryName(name));
  if (unlinkat(directory_.get(), FileName(name).c_str(), 0) == 0) return Sync();
  return errno == ENOENT ? NoSuchEntry(name) : SystemError(errno, Doing("removing", name));
}

absl::StatusOr<std::vector<StateEntry>> StateDirectory::List() const {
  LUNA_ASSIGN_OR_RETURN(const std::vector<std::string> files, FileNames());
  std::vector<StateEntry> entries;
  for (const std::string& file : files) {
    std::string_view name = file;
    if (!absl::EndsWith(file, kEntrySuffix)) continue;
    name.remove_suffix(sizeof(kEntrySuffix) - 1);
    struct stat info;
    if (!CheckEntryName(name).ok()) continue;
    if (fstatat(directory_.get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed since
      return SystemError(errno, Doing("looking at", name));
    }
    if (!S_ISREG(info.st_mode)) continue;
    entries.push_back({std::string(name), info.st_size, absl::TimeFromTimespec(info.st_mtim)});
  }
  std::sort(entries.begin(), entries.end(), [](const StateEntry& a, const StateEntry& b) {
    return std::tie(b.modified, a.name) < std::tie(a.modified, b.name);
  });
  return entries;
}

absl::StatusOr<int> StateDirectory::RemoveOlderThan(absl::Time time) {
  LUNA_ASSIGN_OR_RETURN(const std::vector<StateEntry> entries, List());
  int removed = 0;
  absl::Status first_error;
  for (const StateEntry& entry : entries) {
    if (entry.modified >= time) continue;
    if (unlinkat(directory_.get(), FileName(entry.name).c_str(), 0) == 0) {
      ++removed;
    } else if (errno != ENOENT) {
      first_error.Update(SystemError(errno, Doing("removing", entry.name)));
    }
  }
  if (removed > 0) first_error.Update(Sync());
  if (!first_error.ok()) return first_error;
  return removed;
}

}  // namespace luna::state
