// A model at work: loaded, with its backend, its pool and its engine.
#ifndef LUNA_SERVER_INSTANCE_H_
#define LUNA_SERVER_INSTANCE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/engine/engine.h"
#include "core/model/model.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "server/options.h"
#include "server/pool_size.h"
#include "server/rpc/serving.h"
#include "server/state/state_keeper.h"

namespace luna::server {

// Owns everything below the RPC server. Thread-safe as far as the engine is.
class Instance {
 public:
  // Takes as long as the model takes to load; the engine runs when it returns. `on_published`: see
  // Engine. Statuses are those of what failed; INVALID_ARGUMENT names a flag.
  static absl::StatusOr<std::unique_ptr<Instance>> Load(const Options& options,
                                                        std::function<void()> on_published);
  // Stops.
  ~Instance();

  const rpc::Serving& serving() const { return serving_; }
  engine::Engine& engine() { return *engine_; }
  const PoolSize& pool_size() const { return pool_size_; }

  // Ends what is live with UNAVAILABLE; returns when what is to be saved is on the disk.
  // Idempotent.
  void Stop();

 private:
  Instance() = default;
  absl::Status OpenState(const Options& options);
  absl::Status LoadModel(const Options& options);
  absl::Status MakeBackend(const Options& options);
  // Decides layout_ and pool_size_ for it.
  absl::Status MakePool(const Options& options, backend::Backend& backend);
  absl::Status CheckGuarantee(const Options& options) const;
  void MakeEngine(const Options& options, std::vector<TokenId> opening,
                  std::function<void()> on_published);

  SystemClock clock_;
  std::shared_ptr<const model::Model> model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> chat_;  // null: none, or of a family we do not know
  std::unique_ptr<backend::Backend> backend_;
  kv::KvLayout layout_;
  PoolSize pool_size_;
  std::unique_ptr<state::StateKeeper> keeper_;  // null: nothing is saved
  std::unique_ptr<engine::Engine> engine_;
  rpc::Serving serving_;
};

}  // namespace luna::server

#endif  // LUNA_SERVER_INSTANCE_H_
