#include "client/cli/interrupts.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "core/base/check.h"

namespace luna::cli {
namespace {

bool IsIgnored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

Interrupts::Interrupts(std::initializer_list<int> signals) {
  sigemptyset(&signals_);
  for (const int signal : signals) {
    if (signal != SIGHUP || !IsIgnored(signal)) sigaddset(&signals_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  signal_fd_ = signalfd(-1, &signals_, SFD_CLOEXEC);
  LUNA_CHECK(signal_fd_ >= 0) << "no file descriptor is left";
  listener_ = std::thread([this] { Listen(); });
}

Interrupts::~Interrupts() {
  end_.Set();
  listener_.join();
  close(signal_fd_);
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
}

void Interrupts::Handle(Handler handler) {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !running_; });
  handler_ = std::move(handler);
  times_ = 0;
}

void Interrupts::Listen() {
  std::array<pollfd, 2> waits = {pollfd{signal_fd_, POLLIN, 0}, pollfd{end_.fd(), POLLIN, 0}};
  while (poll(waits.data(), waits.size(), -1) >= 0 || errno == EINTR) {
    if (waits[1].revents != 0) return;
    if (waits[0].revents == 0) continue;
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof info) == sizeof info) Call(static_cast<int>(info.ssi_signo));
  }
}

void Interrupts::Call(int signal) {
  std::unique_lock lock(mutex_);
  if (!handler_) return;
  running_ = true;
  const int times = ++times_;
  lock.unlock();
  handler_(signal, times);  // not replaced while running_
  lock.lock();
  running_ = false;
  idle_.notify_all();
}

}  // namespace luna::cli
