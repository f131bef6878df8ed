#include "client/load/event_loop.h"

#include <grpcpp/alarm.h>

#include <chrono>
#include <utility>

namespace luna::load {
namespace {

std::chrono::system_clock::time_point In(absl::Duration delay) {
  return std::chrono::system_clock::now() + absl::ToChronoMicroseconds(delay);
}

}  // namespace

struct EventLoop::Operation {
  Completion completion;
  std::unique_ptr<grpc::Alarm> alarm;  // of a timer
};

EventLoop::~EventLoop() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) delete static_cast<Operation*>(tag);  // posted too late
}

void EventLoop::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (pending_ > 0 && queue_.Next(&tag, &ok)) {
    const std::unique_ptr<Operation> operation(static_cast<Operation*>(tag));
    timers_.erase(operation.get());
    operation->completion(ok);
    --pending_;  // only now, so that what the callback starts keeps the loop running
  }
}

void EventLoop::After(absl::Duration delay, std::function<void()> callback) {
  void* const tag = Tag([callback = std::move(callback)](bool ok) {
    if (ok) callback();
  });
  auto* const operation = static_cast<Operation*>(tag);
  timers_.insert(operation);
  operation->alarm = std::make_unique<grpc::Alarm>();
  operation->alarm->Set(&queue_, In(delay), tag);
}

void EventLoop::CancelTimers() {
  for (Operation* timer : timers_) timer->alarm->Cancel();
}

void EventLoop::Post(std::function<void()> callback) {
  auto* const operation = static_cast<Operation*>(Tag([callback = std::move(callback)](bool ok) {
    if (ok) callback();
  }));
  // The loop may delete the operation as soon as the alarm is set; the alarm itself goes with it,
  // which gRPC allows once its tag has been delivered.
  operation->alarm = std::make_unique<grpc::Alarm>();
  grpc::Alarm& alarm = *operation->alarm;
  alarm.Set(&queue_, std::chrono::system_clock::now(), operation);
}

void* EventLoop::Tag(Completion completion) {
  ++pending_;
  return new Operation{std::move(completion), nullptr};
}

}  // namespace luna::load
