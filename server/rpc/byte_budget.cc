#include "server/rpc/byte_budget.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"

namespace luna::rpc {

absl::Status ByteBudget::Share::Grow(size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  std::lock_guard lock(budget_->mutex_);
  size_t& taken = budget_->taken_[caller_];
  const size_t others = taken - bytes_;
  if (others > 0 && taken + bytes > budget_->bytes_per_caller_) {
    return WithRetryAfter(
        absl::ResourceExhaustedError(absl::StrCat("other snapshots of this caller take ", others,
                                                  " bytes on their way; all of them may "
                                                  "take ",
                                                  budget_->bytes_per_caller_)),
        absl::Seconds(1));
  }
  taken += bytes;
  bytes_ += bytes;
  return absl::OkStatus();
}

ByteBudget::Share::~Share() {
  if (bytes_ == 0) return;
  std::lock_guard lock(budget_->mutex_);
  const auto taken = budget_->taken_.find(caller_);
  taken->second -= bytes_;
  if (taken->second == 0) budget_->taken_.erase(taken);
}

}  // namespace luna::rpc
