#include "server/pool_size.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace luna::server {

absl::StatusOr<PoolSize> ChoosePoolSize(const kv::KvLayout& layout, const PoolRequest& request) {
  const int64_t block_bytes = layout.block_bytes();
  PoolSize size;
  size.context_blocks = layout.BlocksForTokens(request.context, request.max_batch_tokens);
  int64_t num_blocks = size.context_blocks * request.max_sessions;
  if (request.kv_cache_bytes > 0) {
    if (request.available_bytes > 0 && request.kv_cache_bytes > request.available_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("--kv-cache-bytes: ", request.kv_cache_bytes,
                                                     " is more than the ", request.available_bytes,
                                                     " bytes of memory that the weights leave"));
    }
    num_blocks = request.kv_cache_bytes / block_bytes;
  } else if (request.available_bytes > 0) {
    num_blocks = std::min(num_blocks, request.available_bytes / 2 / block_bytes);
  }
  if (num_blocks < 1) {
    const int64_t budget =
        request.kv_cache_bytes > 0 ? request.kv_cache_bytes : request.available_bytes / 2;
    return absl::InvalidArgumentError(
        absl::StrCat("--kv-cache-bytes: ", budget, " is less than one block, ", block_bytes));
  }
  size.num_blocks =
      static_cast<int32_t>(std::min<int64_t>(num_blocks, std::numeric_limits<int32_t>::max() / 2));
  size.bytes = size.num_blocks * block_bytes;
  return size;
}

}  // namespace luna::server
