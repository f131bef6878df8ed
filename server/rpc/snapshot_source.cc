#include "server/rpc/snapshot_source.h"

#include <utility>

namespace luna::rpc {

class SnapshotSource::Delivery final : public EventLoop::Reader {
 public:
  Delivery(SnapshotSource* source, absl::StatusOr<engine::Snapshot> snapshot)
      : source_(source), snapshot_(std::move(snapshot)) {}
  void OnReady() override { source_->Deliver(snapshot_); }

 private:
  SnapshotSource* const source_;
  const absl::StatusOr<engine::Snapshot> snapshot_;
};

void SnapshotSource::Ask(std::shared_ptr<Taker> taker) {
  next_.push_back(std::move(taker));
  if (!asked_) AskEngine();
}

void SnapshotSource::AskEngine() {
  asked_ = true;
  std::swap(current_, next_);
  host_->serving()->engine->TakeSnapshot([this](absl::StatusOr<engine::Snapshot> snapshot) {
    host_->loop().Post(std::make_shared<Delivery>(this, std::move(snapshot)));
  });
}

void SnapshotSource::Deliver(const absl::StatusOr<engine::Snapshot>& snapshot) {
  asked_ = false;
  for (const std::shared_ptr<Taker>& taker : std::exchange(current_, {})) {
    taker->OnSnapshot(snapshot);
  }
  if (!asked_ && !next_.empty()) AskEngine();
}

}  // namespace luna::rpc
