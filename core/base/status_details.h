// What a status carries besides its code and message: the field that was wrong, when to try again.
// Kept as payloads, so that core stays free of protobuf; the server turns them into google.rpc
// details.
#ifndef LUNA_CORE_BASE_STATUS_DETAILS_H_
#define LUNA_CORE_BASE_STATUS_DETAILS_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace luna {

// `status` must not be OK. `field` is a path as in the wire contract: "sampling.top_p", "stop[2]".
absl::Status WithField(absl::Status status, std::string_view field);
// Empty if the status names no field.
std::string FieldOf(const absl::Status& status);

// `status` must not be OK. Whole milliseconds, at least one.
absl::Status WithRetryAfter(absl::Status status, absl::Duration delay);
// Unset if trying again does not help, or nobody knows when.
std::optional<absl::Duration> RetryAfterOf(const absl::Status& status);

// INVALID_ARGUMENT "<field>: <reason>" that carries its field.
absl::Status InvalidField(std::string_view field, std::string_view reason);

}  // namespace luna

#endif  // LUNA_CORE_BASE_STATUS_DETAILS_H_
