// Runs a program as a shell would, with its three streams in the test's hands.
#ifndef LUNA_TESTS_CLIENT_SUBPROCESS_H_
#define LUNA_TESTS_CLIENT_SUBPROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/check.h"

extern char** environ;

namespace luna::testing_support {

// Single-threaded use, but that standard error is collected by a thread of its own.
class Subprocess {
 public:
  explicit Subprocess(const std::vector<std::string>& arguments) {
    std::array<int, 2> in, out, err;
    for (auto* ends : {&in, &out, &err}) LUNA_CHECK_EQ(pipe2(ends->data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    std::vector<char*> argv;
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    LUNA_CHECK_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0)
        << "for " << arguments[0];
    posix_spawn_file_actions_destroy(&actions);
    for (const int end : {in[0], out[1], err[1]}) close(end);
    in_ = in[1];
    out_ = out[0];
    error_reader_ = std::thread([this, fd = err[0]] {
      while (ReadSome(fd, error_text_)) {
      }
      close(fd);
    });
  }

  ~Subprocess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
  }
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  void Write(const std::string& text) {
    LUNA_CHECK_EQ(write(in_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void CloseInput() {
    if (in_ >= 0) close(std::exchange(in_, -1));
  }
  // Until standard output holds `text`; false at its end.
  bool ReadUntil(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      if (!ReadSome(out_, output_)) return false;
    }
    return true;
  }
  void Signal(int signal) { kill(pid_, signal); }
  // Closes standard input, reads all output, gives the exit code, or 128 + the signal.
  int Wait() {
    CloseInput();
    return WaitWithInputOpen();
  }
  // The same for a process that ends although there could be more input.
  int WaitWithInputOpen() {
    while (ReadSome(out_, output_)) {
    }
    close(out_);
    CloseInput();
    error_reader_.join();
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const std::string& output() const { return output_; }
  const std::string& error() const { return error_text_; }  // after Wait

 private:
  static bool ReadSome(int fd, std::string& into) {
    std::array<char, 4096> buffer;
    ssize_t got = 0;
    do {
      got = read(fd, buffer.data(), buffer.size());
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return false;
    into.append(buffer.data(), static_cast<size_t>(got));
    return true;
  }

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string output_;
  std::string error_text_;
  std::thread error_reader_;
};

}  // namespace luna::testing_support

#endif  // LUNA_TESTS_CLIENT_SUBPROCESS_H_
