// A file that appears under its name only when it is whole, readable by its owner alone.
#ifndef LUNA_CLIENT_ATOMIC_FILE_H_
#define LUNA_CLIENT_ATOMIC_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace luna::client {

// Written beside its place, with mode 0600. Without Commit nothing is left of it, and what was at
// its place stays. Errors name the path and say why.
class AtomicFile {
 public:
  // ALREADY_EXISTS where there is something at `path` and `replace` is false; FAILED_PRECONDITION
  // where what would be replaced is no file.
  static absl::StatusOr<AtomicFile> Create(const std::string& path, bool replace);

  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;

  absl::Status Append(std::string_view data);
  // Once, after the last Append: it is on the disk, then at its place. What has come to be there
  // since Create is not overwritten either, unless `replace`.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd, bool replace);

  // 0, or the error.
  int Place();

  const std::string path_;
  std::string temporary_;  // empty: nothing to remove
  int fd_;                 // -1: closed
  const bool replace_;
};

}  // namespace luna::client

#endif  // LUNA_CLIENT_ATOMIC_FILE_H_
