#include "client/term/keyboard.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace luna::term {
namespace {

// Blocks until `fd` can be read: true. False once `wake` is set, which goes before.
bool WaitFor(int fd, const Wake& wake) {
  std::array<pollfd, 2> waits = {pollfd{fd, POLLIN, 0}, pollfd{wake.fd(), POLLIN, 0}};
  while (poll(waits.data(), waits.size(), -1) < 0) {
    if (errno != EINTR) return false;
  }
  return waits[1].revents == 0;
}

ssize_t ReadSome(int fd, std::array<char, 4096>& buffer) {
  ssize_t got = 0;
  do {
    got = read(fd, buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

bool HasKeyboard() { return isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) == getpgrp(); }

Keys::Keys(std::function<void(char key)> on_key) : on_key_(std::move(on_key)) {
  if (HasKeyboard()) listener_ = std::thread([this] { Listen(); });
}

Keys::~Keys() {
  end_.Set();
  if (listener_.joinable()) listener_.join();
}

void Keys::Listen() {
  std::array<char, 4096> buffer;
  while (WaitFor(STDIN_FILENO, end_)) {
    const ssize_t got = ReadSome(STDIN_FILENO, buffer);
    if (got <= 0) return;
    for (ssize_t i = 0; i < got; ++i) on_key_(buffer[static_cast<size_t>(i)]);
  }
}

void LineReader::Stop() {
  stopped_ = true;
  stop_.Set();
}

bool LineReader::Next(std::string& line) {
  size_t end = 0;
  while ((end = ahead_.find('\n')) == std::string::npos) {
    if (Read()) continue;
    if (stopped_) return false;
    line = std::exchange(ahead_, {});
    return !line.empty();
  }
  if (stopped_) return false;
  line = ahead_.substr(0, end);
  ahead_.erase(0, end + 1);
  return true;
}

bool LineReader::Read() {
  if (!WaitFor(fd_, stop_)) return false;
  std::array<char, 4096> buffer;
  const ssize_t got = ReadSome(fd_, buffer);
  if (got <= 0) return false;
  ahead_.append(buffer.data(), static_cast<size_t>(got));
  return true;
}

}  // namespace luna::term
