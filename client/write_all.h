// Writing to a file descriptor until all is written.
#ifndef LUNA_CLIENT_WRITE_ALL_H_
#define LUNA_CLIENT_WRITE_ALL_H_

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace luna::client {

// 0, or the error.
inline int WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace luna::client

#endif  // LUNA_CLIENT_WRITE_ALL_H_
