#include "server/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace luna::server {
namespace {

// Tells the receiving thread to leave.
constexpr int kLeave = SIGUSR1;

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, kLeave);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = Signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A client that leaves in the middle of a write is a status, not the end of the server.
  signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { Receive(); });
  pthread_setname_np(thread_.native_handle(), "luna-signals");
}

StopSignals::~StopSignals() {
  pthread_kill(thread_.native_handle(), kLeave);
  thread_.join();
}

void StopSignals::Arm() {
  std::lock_guard lock(mutex_);
  armed_ = true;
}

int StopSignals::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return first_ != 0; });
  return first_;
}

void StopSignals::Receive() {
  const sigset_t set = Signals();
  while (true) {
    siginfo_t info;
    const int signal = sigwaitinfo(&set, &info);
    if (signal < 0) continue;  // interrupted
    if (signal == kLeave) {
      if (info.si_pid == getpid()) return;
      continue;  // somebody else's means nothing
    }
    std::lock_guard lock(mutex_);
    if (!armed_) _exit(0);
    if (first_ != 0) _exit(128 + signal);
    first_ = signal;
    changed_.notify_all();
  }
}

}  // namespace luna::server
