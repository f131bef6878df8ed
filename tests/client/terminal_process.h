// Runs a program on a terminal of its own, with the test as the one who types and reads.
#ifndef LUNA_TESTS_CLIENT_TERMINAL_PROCESS_H_
#define LUNA_TESTS_CLIENT_TERMINAL_PROCESS_H_

#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "core/base/check.h"

namespace luna::testing_support {

class TerminalProcess {
 public:
  explicit TerminalProcess(const std::vector<std::string>& arguments) {
    std::vector<char*> argv;
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 80;
    LUNA_CHECK(openpty(&master_, &terminal_, nullptr, nullptr, &size) == 0);
    pid_ = fork();
    LUNA_CHECK(pid_ >= 0);
    if (pid_ == 0) {  // only what is allowed between fork and exec in a process with threads
      close(master_);
      if (login_tty(terminal_) != 0) _exit(126);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }

  ~TerminalProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    close(terminal_);
    close(master_);
  }
  TerminalProcess(const TerminalProcess&) = delete;
  TerminalProcess& operator=(const TerminalProcess&) = delete;

  void Type(const std::string& keys) {
    LUNA_CHECK(write(master_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }
  // Until the terminal has shown `text`.
  bool ReadUntil(const std::string& text) {
    while (shown_.find(text) == std::string::npos) {
      std::array<char, 4096> buffer;
      const ssize_t got = read(master_, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      shown_.append(buffer.data(), static_cast<size_t>(got));
    }
    return true;
  }
  void Signal(int signal) { kill(pid_, signal); }
  // The exit code, or 128 + the signal. What the program still writes must fit the terminal's
  // buffer.
  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // What the terminal does with keys now.
  bool echoes() const { return (Settings().c_lflag & ECHO) != 0; }
  bool waits_for_lines() const { return (Settings().c_lflag & ICANON) != 0; }
  const std::string& shown() const { return shown_; }

 private:
  termios Settings() const {
    termios settings{};
    LUNA_CHECK(tcgetattr(terminal_, &settings) == 0);
    return settings;
  }

  int master_ = -1;
  int terminal_ = -1;  // kept open, so that it can still be asked when the program has ended
  pid_t pid_ = -1;
  std::string shown_;
};

}  // namespace luna::testing_support

#endif  // LUNA_TESTS_CLIENT_TERMINAL_PROCESS_H_
