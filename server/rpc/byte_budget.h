// How much of the server's memory the snapshots may take that one caller sends or is sent.
#ifndef LUNA_SERVER_RPC_BYTE_BUDGET_H_
#define LUNA_SERVER_RPC_BYTE_BUDGET_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"

namespace luna::rpc {

// What a call that saves or restores takes from its beginning, so that their number is bounded too.
inline constexpr size_t kSnapshotCallBytes = size_t{1} << 20;

// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(size_t bytes_per_caller) : bytes_per_caller_(bytes_per_caller) {}

  // What one call has of it; gives it back. The budget outlives it.
  class Share {
   public:
    Share(ByteBudget* budget, std::string caller) : budget_(budget), caller_(std::move(caller)) {}
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // RESOURCE_EXHAUSTED if the caller's calls would have more than its budget together; a call
    // that is alone may have any amount.
    absl::Status Grow(size_t bytes);

   private:
    ByteBudget* const budget_;
    const std::string caller_;
    size_t bytes_ = 0;
  };

 private:
  const size_t bytes_per_caller_;
  std::mutex mutex_;
  std::map<std::string, size_t> taken_;  // guarded by mutex_; of callers that have some
};

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_BYTE_BUDGET_H_
