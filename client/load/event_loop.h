// One thread that waits for everything: the completion queue of all calls, and timers. What runs a
// whole class, or sixty-four clients of a benchmark, without a thread for each.
#ifndef LUNA_CLIENT_LOAD_EVENT_LOOP_H_
#define LUNA_CLIENT_LOAD_EVENT_LOOP_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <functional>
#include <memory>
#include <unordered_set>

#include "absl/time/time.h"

namespace luna::load {

// Callbacks run on the thread that is in Run(), one at a time. All members but Post are for that
// thread (or for before Run); Post is thread-safe.
class EventLoop {
 public:
  using Completion = std::function<void(bool ok)>;

  EventLoop() = default;
  // No operation may be in progress.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Until no operation and no timer is left.
  void Run();

  void After(absl::Duration delay, std::function<void()> callback);
  // Timers that have not fired are dropped.
  void CancelTimers();
  // From any thread, as long as the loop lives: runs the callback in Run().
  void Post(std::function<void()> callback);

  // For asynchronous calls: where their completions go, and the tag of the next operation, whose
  // callback then runs exactly once.
  grpc::CompletionQueue* queue() { return &queue_; }
  void* Tag(Completion completion);

 private:
  struct Operation;

  grpc::CompletionQueue queue_;
  std::unordered_set<Operation*> timers_;
  std::atomic<int> pending_{0};
};

}  // namespace luna::load

#endif  // LUNA_CLIENT_LOAD_EVENT_LOOP_H_
