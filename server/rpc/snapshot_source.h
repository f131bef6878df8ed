// One snapshot for however many watch: the engine is asked by one at a time.
#ifndef LUNA_SERVER_RPC_SNAPSHOT_SOURCE_H_
#define LUNA_SERVER_RPC_SNAPSHOT_SOURCE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/snapshot.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/host.h"

namespace luna::rpc {

// Writer thread only. Lives until the event loop has shut down.
class SnapshotSource {
 public:
  class Taker {
   public:
    virtual ~Taker() = default;
    virtual void OnSnapshot(const absl::StatusOr<engine::Snapshot>& snapshot) = 0;
  };

  explicit SnapshotSource(Host* host) : host_(host) {}

  // `taker` gets a snapshot that is taken after this call: one that is on its way already is not
  // for it. The model is loaded.
  void Ask(std::shared_ptr<Taker> taker);

 private:
  // A snapshot on its way from the engine to those who asked for it.
  class Delivery;

  void Deliver(const absl::StatusOr<engine::Snapshot>& snapshot);
  void AskEngine();

  Host* const host_;
  std::vector<std::shared_ptr<Taker>> next_;     // wait for the next one
  std::vector<std::shared_ptr<Taker>> current_;  // of the one that is on its way
  bool asked_ = false;
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_SNAPSHOT_SOURCE_H_
