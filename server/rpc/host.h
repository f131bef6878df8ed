// What all calls of one server share: the thread that writes, the threads that tokenize, what is
// served.
#ifndef LUNA_SERVER_RPC_HOST_H_
#define LUNA_SERVER_RPC_HOST_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/rpc/byte_budget.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/serving.h"
#include "server/rpc/worker_pool.h"

namespace luna::rpc {

// How many calls of a kind are live. Thread-safe.
class LiveCalls {
 public:
  // A live call owns one. The LiveCalls must outlive it.
  class Ticket {
   public:
    explicit Ticket(LiveCalls* calls) : calls_(calls) { calls_->Add(1); }
    ~Ticket() { calls_->Add(-1); }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

   private:
    LiveCalls* const calls_;
  };

  // False if some are still live at `deadline`.
  bool WaitUntilNone(absl::Time deadline);

 private:
  void Add(int change);

  std::mutex mutex_;
  std::condition_variable none_;
  int count_ = 0;  // guarded by mutex_
};

// Thread-safe, except that Serve is called once.
class Host {
 public:
  explicit Host(std::unique_ptr<grpc::ServerCompletionQueue> queue);

  EventLoop& loop() { return loop_; }
  WorkerPool& workers() { return workers_; }
  // Of calls that save and restore sessions.
  ByteBudget& snapshot_bytes() { return snapshot_bytes_; }
  // Calls that wait for the model: what a drain waits for.
  LiveCalls& generations() { return generations_; }
  // Whatever may still start an operation on the event loop: what its end waits for.
  LiveCalls& calls() { return calls_; }

  void Serve(const Serving* serving) { serving_.store(serving, std::memory_order_release); }
  // Null while the model loads.
  const Serving* serving() const { return serving_.load(std::memory_order_acquire); }

  void SetDraining() { draining_.store(true, std::memory_order_relaxed); }
  // UNAVAILABLE while the model loads.
  absl::Status CheckLoaded() const;
  // UNAVAILABLE while the model loads or the server drains: whether a generation may begin.
  absl::Status CheckOpen() const;
  // FAILED_PRECONDITION without a state directory. Once the model is loaded.
  absl::Status CheckKeeper() const;
  // For who found its lane of the workers full: RESOURCE_EXHAUSTED "too many <waiting>", and when
  // to try again.
  static absl::Status WorkersAreBusy(std::string_view waiting);

 private:
  std::atomic<const Serving*> serving_{nullptr};
  std::atomic<bool> draining_{false};
  ByteBudget snapshot_bytes_;
  LiveCalls generations_;
  LiveCalls calls_;
  EventLoop loop_;
  WorkerPool workers_;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_HOST_H_
