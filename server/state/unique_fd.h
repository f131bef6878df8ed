// A file descriptor that is closed with its owner.
#ifndef LUNA_SERVER_STATE_UNIQUE_FD_H_
#define LUNA_SERVER_STATE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace luna::state {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) close(fd_);
  }

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace luna::state

#endif  // LUNA_SERVER_STATE_UNIQUE_FD_H_
