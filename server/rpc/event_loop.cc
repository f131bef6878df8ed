#include "server/rpc/event_loop.h"

#include <grpc/support/time.h>
#include <pthread.h>

#include <future>

namespace luna::rpc {
namespace {

constexpr size_t kUsualReady = 1024;
// Long answers between two looks at the streams. A new stream is looked at five times until its
// first token is out, and a long answer may take milliseconds.
constexpr size_t kBulkyAtOnce = 1;

class Task final : public EventLoop::Reader {
 public:
  explicit Task(std::function<void()> run) : run_(std::move(run)) {}
  void OnReady() override {
    run_();
    done_.set_value();
  }
  void Wait() { done_.get_future().wait(); }

 private:
  const std::function<void()> run_;
  std::promise<void> done_;
};

}  // namespace

EventLoop::EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : queue_(std::move(queue)) {
  ready_.reserve(kUsualReady);
  taken_.reserve(kUsualReady);
}

EventLoop::~EventLoop() { LUNA_CHECK(!thread_.joinable()) << "the event loop still runs"; }

void EventLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void EventLoop::Shutdown() {
  queue_->Shutdown();
  if (thread_.joinable()) thread_.join();
  // Nothing looks at these any more; they may refer to calls that refer to them.
  ready_.clear();
  bulky_.clear();
}

void EventLoop::Enqueue(std::shared_ptr<Reader> reader) {
  const bool bulky = reader->bulky();
  std::lock_guard lock(mutex_);
  if (bulky) {
    bulky_.push_back(std::move(reader));
  } else {
    ready_.push_back(std::move(reader));
  }
}

void EventLoop::Kick() {
  {
    std::lock_guard lock(mutex_);
    if (armed_ || (ready_.empty() && bulky_.empty())) return;
    armed_ = true;
  }
  alarm_.Set(queue_.get(), gpr_now(GPR_CLOCK_MONOTONIC), static_cast<Completion*>(&wake_up_));
}

void EventLoop::RunAndWait(std::function<void()> task) {
  const auto posted = std::make_shared<Task>(std::move(task));
  Post(posted);
  posted->Wait();
}

void EventLoop::Run() {
  pthread_setname_np(pthread_self(), "luna-writer");
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<Completion*>(tag)->Complete(ok);
}

void EventLoop::RunReady() {
  {
    std::lock_guard lock(mutex_);
    std::swap(ready_, taken_);
    for (size_t i = 0; i < kBulkyAtOnce && !bulky_.empty(); ++i) {
      taken_.push_back(std::move(bulky_.front()));
      bulky_.pop_front();
    }
    armed_ = false;
  }
  for (const std::shared_ptr<Reader>& reader : taken_) reader->OnReady();
  taken_.clear();
  Kick();  // behind what gRPC has completed meanwhile
}

}  // namespace luna::rpc
