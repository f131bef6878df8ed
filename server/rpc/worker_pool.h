// A few threads for what takes long and needs no state of the engine: turning text into tokens.
#ifndef LUNA_SERVER_RPC_WORKER_POOL_H_
#define LUNA_SERVER_RPC_WORKER_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace luna::rpc {

// Thread-safe.
class WorkerPool {
 public:
  WorkerPool(int num_threads, size_t capacity);
  // Stops.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Never waits. False if `capacity` tasks are waiting or the pool was stopped; `task` is then
  // dropped.
  bool Run(std::function<void()> task);

  // Runs what is waiting and joins the threads. Idempotent.
  void Stop();

 private:
  void Work();

  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  bool stopped_ = false;                     // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_WORKER_POOL_H_
