#include "server/rpc/worker_pool.h"

#include <pthread.h>

#include <utility>

namespace luna::rpc {

WorkerPool::WorkerPool(int num_threads, LaneLimits limits) : limits_(limits) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Work(); });
}

WorkerPool::~WorkerPool() { Stop(); }

bool WorkerPool::Run(const std::string& lane, size_t bytes, std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return false;
    const auto [it, is_new] = lanes_.try_emplace(lane);
    Lane& joined = it->second;
    if (is_new) {
      turns_.push_back(lane);
    } else if (joined.tasks.size() >= limits_.tasks || joined.bytes + bytes > limits_.bytes) {
      return false;
    }
    joined.bytes += bytes;
    joined.tasks.push_back({bytes, std::move(task)});
  }
  changed_.notify_one();
  return true;
}

void WorkerPool::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

std::function<void()> WorkerPool::TakeNext() {
  const auto it = lanes_.find(turns_.front());
  Lane& lane = it->second;
  Task task = std::move(lane.tasks.front());
  lane.tasks.pop_front();
  lane.bytes -= task.bytes;
  if (lane.tasks.empty()) {
    lanes_.erase(it);
  } else {
    turns_.push_back(std::move(turns_.front()));
  }
  turns_.pop_front();
  return std::move(task.run);
}

void WorkerPool::Work() {
  pthread_setname_np(pthread_self(), "luna-rpc-work");
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopped_ || !turns_.empty(); });
      if (turns_.empty()) return;
      task = TakeNext();
    }
    task();
  }
}

}  // namespace luna::rpc
