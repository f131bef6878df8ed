// SIGTERM, SIGINT and SIGHUP as something one can wait for.
#ifndef LUNA_SERVER_SIGNALS_H_
#define LUNA_SERVER_SIGNALS_H_

#include <condition_variable>
#include <mutex>
#include <thread>

namespace luna::server {

// Made before any other thread, so that all of them leave the signals to this. The first signal is
// what Wait waits for; a second one ends the process at once, as does one before Arm (nothing is
// live while a model loads).
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From now on a signal is a request to stop in order.
  void Arm();
  // Blocks until the first signal; its number.
  int Wait();

 private:
  void Receive();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool armed_ = false;  // guarded by mutex_
  int first_ = 0;       // guarded by mutex_
  std::thread thread_;
};

}  // namespace luna::server

#endif  // LUNA_SERVER_SIGNALS_H_
