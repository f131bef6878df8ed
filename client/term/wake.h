// Wakes a thread that waits in poll().
#ifndef LUNA_CLIENT_TERM_WAKE_H_
#define LUNA_CLIENT_TERM_WAKE_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/check.h"

namespace luna::term {

// Thread-safe. Once set it stays set.
class Wake {
 public:
  Wake() : fd_(eventfd(0, EFD_CLOEXEC)) { LUNA_CHECK(fd_ >= 0) << "no file descriptor is left"; }
  ~Wake() { close(fd_); }
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;

  void Set() { eventfd_write(fd_, 1); }
  // Readable from the first Set on. Only for poll().
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace luna::term

#endif  // LUNA_CLIENT_TERM_WAKE_H_
