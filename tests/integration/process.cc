#include "tests/integration/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <utility>

namespace luna::integration {
namespace {

std::string Line(FILE* file) {
  std::string line;
  for (int c = fgetc(file); c != EOF && c != '\n'; c = fgetc(file)) line.push_back(c);
  return line;
}

std::string Rest(FILE* file) {
  std::string text;
  for (int c = fgetc(file); c != EOF; c = fgetc(file)) text.push_back(c);
  return text;
}

}  // namespace

Process::Process(std::vector<std::string> flags) {
  std::array<int, 2> out;
  std::array<int, 2> err;
  EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(err.data(), O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  flags.insert(flags.begin(), LUNA_SERVER_BINARY);
  std::vector<char*> argv;
  for (std::string& flag : flags) argv.push_back(flag.data());
  argv.push_back(nullptr);
  EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  out_ = fdopen(out[0], "r");
  err_ = fdopen(err[0], "r");
}

Process::~Process() {
  if (pid_ > 0) Signal(SIGKILL), Wait();
  fclose(out_);
  fclose(err_);
}

std::string Process::ReadLine() { return Line(out_); }
std::string Process::ReadRest() { return Rest(out_); }
std::string Process::ReadErrors() { return Rest(err_); }

void Process::Signal(int signal) { kill(pid_, signal); }

int Process::Wait() {
  int status = 0;
  waitpid(std::exchange(pid_, 0), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string Process::WaitUntilReady() {
  const std::string line = ReadLine();
  EXPECT_THAT(line, testing::MatchesRegex("ready grpc=127\\.0\\.0\\.1:[0-9]+ model=[^ ]+"));
  return line.substr(11, line.find(" model=") - 11);
}

bool Process::ForgetPeak() const {
  std::ofstream file("/proc/" + std::to_string(pid_) + "/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

int64_t Process::StatusBytes(const std::string& field) const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
  std::string word;
  while (file >> word) {
    int64_t kib = 0;
    if (word == field && file >> kib) return kib * 1024;
  }
  ADD_FAILURE() << "no " << field << " of process " << pid_;
  return 0;
}

}  // namespace luna::integration
