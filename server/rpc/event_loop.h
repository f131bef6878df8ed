// The one thread that talks to gRPC: it polls the completion queue and starts every operation on a
// call, so that the state of a call has one owner and needs no lock. Measured against the callback
// and the synchronous API, one such thread costs the least per streamed message.
#ifndef LUNA_SERVER_RPC_EVENT_LOOP_H_
#define LUNA_SERVER_RPC_EVENT_LOOP_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace luna::rpc {

// What gRPC hands back when an operation is over; its address is the tag.
class Completion {
 public:
  virtual void Complete(bool ok) = 0;

 protected:
  ~Completion() = default;
};

// One kind of operation of a call, at most one pending at a time. Keeps the call alive while
// pending.
template <typename Call>
class Operation final : public Completion {
 public:
  using Handler = void (Call::*)(bool ok);

  explicit Operation(Handler handler) : handler_(handler) {}

  // The tag to give to gRPC.
  void* Start(std::shared_ptr<Call> call) {
    LUNA_CHECK(call_ == nullptr) << "an operation of this kind is pending";
    call_ = std::move(call);
    return static_cast<Completion*>(this);
  }
  // For an operation of which gRPC will never hand back the tag.
  void Drop() { call_.reset(); }

  bool pending() const { return call_ != nullptr; }

  void Complete(bool ok) override {
    const std::shared_ptr<Call> call = std::move(call_);
    ((*call).*handler_)(ok);
  }

 private:
  const Handler handler_;
  std::shared_ptr<Call> call_;
};

class EventLoop {
 public:
  // Something that another thread wants the writer thread to look at.
  class Reader {
   public:
    virtual ~Reader() = default;
    virtual void OnReady() = 0;  // writer thread
    // Its answer may be long, and a moment's delay is nothing: streams go first.
    virtual bool bulky() const { return false; }
  };

  explicit EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue);
  // Shut down before.
  ~EventLoop();

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

  void Start();
  // Hands out what is still pending and joins the thread. The server was shut down, and nobody
  // starts an operation or calls Enqueue, Kick or Post any more: gRPC aborts the process that does.
  void Shutdown();

  // Puts `reader` on the list without waking anybody. Thread-safe; no foreign code, and no
  // allocation once the list has had its usual length.
  void Enqueue(std::shared_ptr<Reader> reader);
  // Wakes the writer thread if something is on the list: once for however many. Thread-safe.
  void Kick();
  // Both. Thread-safe.
  void Post(std::shared_ptr<Reader> reader) {
    Enqueue(std::move(reader));
    Kick();
  }
  // Runs `task` on the writer thread after all that came before, and waits for it. Not on the
  // writer thread.
  void RunAndWait(std::function<void()> task);

 private:
  void Run();
  void RunReady();

  class WakeUp final : public Completion {
   public:
    explicit WakeUp(EventLoop* loop) : loop_(loop) {}
    void Complete(bool) override { loop_->RunReady(); }

   private:
    EventLoop* const loop_;
  };

  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  WakeUp wake_up_{this};
  // Set by whoever turned `armed_` on, which is off again only after the queue has handed out the
  // tag: the alarm is never set twice.
  grpc::Alarm alarm_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Reader>> ready_;  // guarded by mutex_
  std::deque<std::shared_ptr<Reader>> bulky_;   // guarded by mutex_
  bool armed_ = false;                          // guarded by mutex_
  std::vector<std::shared_ptr<Reader>> taken_;  // writer thread only
  std::thread thread_;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_EVENT_LOOP_H_
