// The one way into a thread that owns state: many producers, one consumer, a bound.
#ifndef LUNA_CORE_BASE_BOUNDED_QUEUE_H_
#define LUNA_CORE_BASE_BOUNDED_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace luna {

// Thread-safe. Push never waits: a full or closed queue refuses, which is a normal result.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) { items_.reserve(capacity); }

  // False when the queue is full or closed; `item` is then untouched.
  bool Push(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // Takes everything that is there into `out` (whose content is dropped, its capacity kept).
  void TakeAll(std::vector<T>& out) {
    out.clear();
    std::lock_guard lock(mutex_);
    if (items_.empty()) return;
    out.reserve(capacity_);
    std::swap(out, items_);
  }

  // Blocks until there is an item or the queue is closed.
  void Wait() {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [this] { return !items_.empty() || closed_; });
  }

  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_one();
  }

  bool empty() const {
    std::lock_guard lock(mutex_);
    return items_.empty();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::vector<T> items_;  // guarded by mutex_
  bool closed_ = false;   // guarded by mutex_
};

}  // namespace luna

#endif  // LUNA_CORE_BASE_BOUNDED_QUEUE_H_
