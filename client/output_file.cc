#include "client/output_file.h"

#include <fcntl.h>
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
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
}

bool IsRegular(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return CannotWrite(errno, path);
  return OutputFile(path, fd);
}

OutputFile::OutputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(other.path_), fd_(std::exchange(other.fd_, -1)) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status OutputFile::Write(std::string_view content) {
  LUNA_CHECK(fd_ >= 0) << path_ << " is written once";
  // A pipe has no old content, and cannot be cut.
  int error = IsRegular(fd_) && ftruncate(fd_, 0) != 0 ? errno : 0;
  if (error == 0) error = WriteAll(fd_, content);
  if (close(std::exchange(fd_, -1)) != 0 && error == 0) error = errno;
  return error == 0 ? absl::OkStatus() : CannotWrite(error, path_);
}

}  // namespace luna::client
