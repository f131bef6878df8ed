// What the server serves, as the calls see it: put together once the model is loaded, const from
// then.
#ifndef LUNA_SERVER_RPC_SERVING_H_
#define LUNA_SERVER_RPC_SERVING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/engine/engine.h"
#include "core/kv/layout.h"
#include "core/model/model.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "server/state/state_keeper.h"

namespace luna::rpc {

// Borrows; whoever made it keeps it and all it refers to until the RPC server has stopped.
struct Serving {
  std::string name;
  std::string server_version;
  std::shared_ptr<const model::Model> model;  // config.context_length is the one that is served
  backend::BackendInfo backend;
  kv::KvLayout layout;
  const text::Tokenizer* tokenizer = nullptr;
  const text::ChatTemplate* chat = nullptr;  // null: the model has none that we know
  bool has_opening = false;                  // a text prompt gets tokens in front (BOS)
  size_t longest_token_bytes = 1;            // of any token's text
  int64_t max_quota_bytes = 0;               // a session may not ask for more
  size_t max_snapshot_bytes = 0;             // of any session
  engine::Engine* engine = nullptr;
  state::StateKeeper* keeper = nullptr;  // null: without a state directory

  int context() const { return model->config.context_length; }
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_SERVING_H_
