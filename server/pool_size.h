// How large the server's pool of KV blocks is.
#ifndef LUNA_SERVER_POOL_SIZE_H_
#define LUNA_SERVER_POOL_SIZE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/kv/layout.h"

namespace luna::server {

struct PoolRequest {
  int64_t kv_cache_bytes = 0;   // 0: chosen
  int64_t available_bytes = 0;  // what memory leaves after the weights; 0: not known
  int context = 0;              // tokens
  int max_batch_tokens = 0;
  int max_sessions = 0;
};

struct PoolSize {
  int32_t num_blocks = 0;
  int64_t bytes = 0;
  int64_t context_blocks = 0;  // that one session of full context needs
  double full_sessions() const {
    return static_cast<double>(num_blocks) / static_cast<double>(context_blocks);
  }
};

// Chosen: max_sessions times the context, at most half of what is available. INVALID_ARGUMENT names
// the flag, the value and the limit if not even one block fits, or more is asked for than there is.
absl::StatusOr<PoolSize> ChoosePoolSize(const kv::KvLayout& layout, const PoolRequest& request);

}  // namespace luna::server

#endif  // LUNA_SERVER_POOL_SIZE_H_
