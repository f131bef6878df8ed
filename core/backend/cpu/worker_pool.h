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
  // done. Inside, Sync(thread) is a barrier for all of them.
  template <typename Body>
  void Run(Body& body) {
    RunErased([](void* body, int thread) { (*static_cast<Body*>(body))(thread); }, &body);
  }
  // Calls body(0) on the calling thread and wakes nobody; inside, Sync waits for nobody.
  template <typename Body>
  void RunAlone(Body& body) {
    alone_ = true;
    body(0);
    alone_ = false;
  }
  // Each thread says which it is, here and in Share.
  void Sync(int thread) {
    Part& part = parts_[thread];
    std::atomic<int>& taken = part.taken[part.phase];
    if (!alone_) {
      barrier_.Wait();
      part.phase ^= 1;
    }
    // Nobody takes from this one any more, and it is wanted again after the next barrier.
    taken.store(0, std::memory_order_relaxed);
  }

  // Calls body(Range) for [0, count) in pieces of `grain`, the last may be smaller. A thread takes
  // its own part piece by piece, then what is left of the others', so that one that another process
  // slows down holds nobody up. Between two barriers all threads call it once, with the same count
  // and grain, or none does.
  template <typename Body>
  void Share(int thread, int count, int grain, Body body) {
    const int threads = alone_ ? 1 : num_threads_;
    const int pieces = (count + grain - 1) / grain;
    const int phase = parts_[thread].phase;
    for (int i = 0; i < threads; ++i) {
      const int owner = thread + i < threads ? thread + i : thread + i - threads;
      const Range part = StaticRange(pieces, owner, threads);
      std::atomic<int>& taken = parts_[owner].taken[phase];
      while (taken.load(std::memory_order_relaxed) < part.end - part.begin) {
        const int piece = part.begin + taken.fetch_add(1, std::memory_order_relaxed);
        if (piece >= part.end) break;
        body(Range{piece * grain, piece + 1 < pieces ? (piece + 1) * grain : count});
      }
    }
  }

 private:
  using Function = void (*)(void* body, int thread);
  void RunErased(Function function, void* body);
  void Work(int thread);
  void Stop();

  // How many pieces of a thread's part are taken; the threads use the one, then the other.
  struct alignas(64) Part {
    std::atomic<int> taken[2] = {0, 0};
    int phase = 0;  // the thread's own
  };

  const int num_threads_;
  Barrier barrier_;
  std::vector<Part> parts_;  // [num_threads]
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
