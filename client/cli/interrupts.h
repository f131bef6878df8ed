// Ctrl-C and its like as an ordinary call on an ordinary thread, instead of a signal handler in
// which almost nothing may be done.
#ifndef LUNA_CLIENT_CLI_INTERRUPTS_H_
#define LUNA_CLIENT_CLI_INTERRUPTS_H_

#include <condition_variable>
#include <csignal>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <thread>

#include "client/term/wake.h"

namespace luna::cli {

// While it lives, the given signals do nothing to the process but call the handler. Has to be made
// before any other thread, gRPC's included: they inherit the blocked signals. A SIGHUP that whoever
// started the process has it ignore (nohup) stays ignored.
class Interrupts {
 public:
  // `times` counts from 1 since the handler was set.
  using Handler = std::function<void(int signal, int times)>;

  explicit Interrupts(std::initializer_list<int> signals);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Replaces the handler; null ignores the signals. Returns when a call of the old one is over, so
  // what it refers to may go. Not from within a handler.
  void Handle(Handler handler);

 private:
  void Listen();
  void Call(int signal);

  sigset_t signals_;
  int signal_fd_ = -1;
  term::Wake end_;
  std::mutex mutex_;
  std::condition_variable idle_;
  Handler handler_;
  int times_ = 0;
  bool running_ = false;
  std::thread listener_;
};

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_INTERRUPTS_H_
