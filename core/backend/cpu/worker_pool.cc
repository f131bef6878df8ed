#include "core/backend/cpu/worker_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace luna::backend::cpu {
namespace {

constexpr int kSpins = 500;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

void WaitWhileEqual(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  value.wait(old, std::memory_order_acquire);
}

void Barrier::Wait() {
  const uint32_t round = round_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < num_threads_) {
    WaitWhileEqual(round_, round);
    return;
  }
  arrived_.store(0, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

WorkerPool::WorkerPool(int num_threads)
    : num_threads_(num_threads), barrier_(num_threads), parts_(num_threads) {
  threads_.reserve(num_threads_ - 1);
  try {
    for (int thread = 1; thread < num_threads_; ++thread) {
      threads_.emplace_back([this, thread] { Work(thread); });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { Stop(); }

void WorkerPool::Stop() {
  stopping_ = true;
  start_.fetch_add(1, std::memory_order_release);
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::RunErased(Function function, void* body) {
  function_ = function;
  body_ = body;
  start_.fetch_add(1, std::memory_order_release);
  start_.notify_all();
  function(body, 0);
  Sync(0);
}

void WorkerPool::Work(int thread) {
  for (uint32_t seen = 0;; ++seen) {
    WaitWhileEqual(start_, seen);
    if (stopping_) return;
    function_(body_, thread);
    Sync(thread);
  }
}

}  // namespace luna::backend::cpu
