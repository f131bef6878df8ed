// A few threads for what takes long and needs no state of the engine: turning text into tokens.
#ifndef LUNA_SERVER_RPC_WORKER_POOL_H_
#define LUNA_SERVER_RPC_WORKER_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace luna::rpc {

// Tasks stand in lanes, which take turns: whoever floods one delays the others by one task a
// thread, and once it is full shuts out nobody else. Thread-safe.
class WorkerPool {
 public:
  // What may wait in one lane.
  struct LaneLimits {
    size_t tasks = 1024;
    size_t bytes = size_t{16} << 20;  // that its tasks keep
  };

  WorkerPool(int num_threads, LaneLimits limits);
  // Stops.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Never waits. `task` keeps `bytes` until it has run. False, and the task is dropped, if the pool
  // was stopped or its lane is full; a task of any size may wait alone.
  bool Run(const std::string& lane, size_t bytes, std::function<void()> task);

  // Runs what is waiting and joins the threads. Idempotent.
  void Stop();

 private:
  struct Task {
    size_t bytes;
    std::function<void()> run;
  };
  struct Lane {
    std::deque<Task> tasks;
    size_t bytes = 0;
  };

  void Work();
  // The next task in turn. The lock is held and a task waits.
  std::function<void()> TakeNext();

  const LaneLimits limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Lane> lanes_;  // guarded by mutex_; those in which something waits
  std::deque<std::string> turns_;      // guarded by mutex_; their names, whose turn it is first
  bool stopped_ = false;               // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_WORKER_POOL_H_
