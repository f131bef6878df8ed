// Between gRPC's status and absl::Status, with the details of the gRPC error model kept: they
// travel as payloads under their type URLs.
#ifndef LUNA_CLIENT_STATUS_H_
#define LUNA_CLIENT_STATUS_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace luna::client {

// Same code and message; the details of "grpc-status-details-bin" become payloads. Details that
// cannot be read are left out, never an error of their own.
absl::Status FromGrpc(const grpc::Status& status);

// The server's hint when to try again (RetryInfo), if it gave one.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// For people, and nothing twice: what went wrong, the fields that were wrong ("  field:
// description" on a line of its own, "(field)" where the message has the description already), the
// reason of ErrorInfo where it is more than the code, and "try again in 1.5 s".
std::string Describe(const absl::Status& status);

}  // namespace luna::client

#endif  // LUNA_CLIENT_STATUS_H_
