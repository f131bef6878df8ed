// A fixed team of threads that computes one step together.
#ifndef LUNA_CORE_BACKEND_CPU_WORKER_POOL_H_
#define LUNA_CORE_BACKEND_CPU_WORKER_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace luna::backend::cpu {

// Waits until `value` is no longer `old`: spins for some microseconds, then sleeps in the kernel,
// so that another process on the same core costs a wake-up and not the step.
void WaitWhileEqual(const std::atomic<uint32_t>& value, uint32_t old);

// All `num_threads` arrive, then all leave. Reusable at once.
class Barrier {
 public:
  explicit Barrier(int num_threads) : num_threads_(num_threads) {}
  void Wait();

 private:
  const int num_threads_;
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> round_{0};
};

// [begin, end) of `count` things that thread `thread` of `num_threads` takes; the same at every
// call.
struct Range {
  int begin, end;
};
inline Range StaticRange(int count, int thread, int num_threads) {
  const auto edge = [&](int t) { return static_cast<int>(int64_t{count} * t / num_threads); };
  return {edge(thread), edge(thread + 1)};
}

// The caller of Run is the team's thread 0. Run is called by one thread at a time and allocates
// nothing.
class WorkerPool {
 public:
  // Throws std::system_error where the system has no thread left.
  explicit WorkerPool(int num_threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls body(thread) once on each thread, 0 <= thread < num_threads, and returns when all are
  // done. Inside, Sync() is a barrier for all of them.
  template <typename Body>
  void Run(Body& body) {
    RunErased([](void* body, int thread) { (*static_cast<Body*>(body))(thread); }, &body);
  }
  // Calls body(0) on the calling thread and wakes nobody; Sync() inside does nothing.
  template <typename Body>
  void RunAlone(Body& body) {
    alone_ = true;
    body(0);
    alone_ = false;
  }
  void Sync() {
    if (!alone_) barrier_.Wait();
  }

 private:
  using Function = void (*)(void* body, int thread);
  void RunErased(Function function, void* body);
  void Work(int thread);
  void Stop();

  const int num_threads_;
  Barrier barrier_;
  // Written by Run before start_ changes; read by the workers after.
  Function function_ = nullptr;
  void* body_ = nullptr;
  bool stopping_ = false;
  bool alone_ = false;  // true only while the workers sleep
  std::atomic<uint32_t> start_{0};
  std::vector<std::thread> threads_;
};

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_WORKER_POOL_H_
