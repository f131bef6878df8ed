#include "client/cli/interrupts.h"

#include <pthread.h>

#include <utility>

namespace luna::cli {
namespace {

// Tells the listener to end; sent to that thread only.
constexpr int kEnd = SIGUSR1;

}  // namespace

Interrupts::Interrupts(std::initializer_list<int> signals) {
  sigemptyset(&signals_);
  for (const int signal : signals) sigaddset(&signals_, signal);
  sigaddset(&signals_, kEnd);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  listener_ = std::thread([this] { Listen(); });
}

Interrupts::~Interrupts() {
  pthread_kill(listener_.native_handle(), kEnd);
  listener_.join();
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
}

void Interrupts::Handle(Handler handler) {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !running_; });
  handler_ = std::move(handler);
  times_ = 0;
}

void Interrupts::Listen() {
  int signal = 0;
  while (sigwait(&signals_, &signal) == 0 && signal != kEnd) {
    std::unique_lock lock(mutex_);
    if (!handler_) continue;
    running_ = true;
    const int times = ++times_;
    lock.unlock();
    handler_(times);  // not replaced while running_
    lock.lock();
    running_ = false;
    idle_.notify_all();
  }
}

}  // namespace luna::cli
