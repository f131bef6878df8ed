#include "client/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/write_all.h"
#include "core/base/check.h"

namespace luna::client {
namespace {

absl::Status CannotWrite(int error, const std::string& path) {
  if (error == EEXIST) {
    return absl::AlreadyExistsError(absl::StrCat(path, " is there already and stays as it is"));
  }
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
}

int ErrorOf(int result) { return result == 0 ? 0 : errno; }

// The name is lasting when its directory is on the disk. Where a directory cannot be synced there
// is nothing more to do for it, and the file is whole all the same.
void SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == path.npos ? "." : path.substr(0, slash + 1);
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path, bool replace) {
  struct stat info {};
  const bool exists = lstat(path.c_str(), &info) == 0;
  if (exists && !replace) return CannotWrite(EEXIST, path);
  // Nobody who writes to a device or a pipe wants a file in its place.
  if (exists && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a regular file and stays as it is"));
  }
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);  // with mode 0600
  if (fd < 0) return CannotWrite(errno, path);
  return AtomicFile(path, std::move(temporary), fd, replace);
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd, bool replace)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd), replace_(replace) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(other.path_),
      temporary_(std::exchange(other.temporary_, "")),
      fd_(std::exchange(other.fd_, -1)),
      replace_(other.replace_) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Append(std::string_view data) {
  LUNA_CHECK(fd_ >= 0) << path_ << " is committed";
  const int error = WriteAll(fd_, data);
  return error == 0 ? absl::OkStatus() : CannotWrite(error, path_);
}

absl::Status AtomicFile::Commit() {
  LUNA_CHECK(fd_ >= 0) << path_ << " is committed once";
  int error = ErrorOf(fsync(fd_));
  const int close_error = ErrorOf(close(std::exchange(fd_, -1)));
  if (error == 0) error = close_error;
  if (error == 0) error = Place();
  if (error != 0) return CannotWrite(error, path_);
  SyncDirectoryOf(path_);
  return absl::OkStatus();
}

int AtomicFile::Place() {
  if (replace_) {
    const int error = ErrorOf(rename(temporary_.c_str(), path_.c_str()));
    if (error == 0) temporary_.clear();
    return error;
  }
  const int error =
      ErrorOf(renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE));
  if (error == 0) temporary_.clear();
  // Some network file systems do not know this rename; a second name for the file does the same,
  // and the destructor takes the first.
  return error == EINVAL ? ErrorOf(link(temporary_.c_str(), path_.c_str())) : error;
}

}  // namespace luna::client
