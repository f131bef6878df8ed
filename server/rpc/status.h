// Our statuses as gRPC's, with google.rpc details in "grpc-status-details-bin".
#ifndef LUNA_SERVER_RPC_STATUS_H_
#define LUNA_SERVER_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace luna::rpc {

// An error carries: ErrorInfo {reason: the code's name, domain: "luna"} always, BadRequest where a
// field is named, RetryInfo where trying again helps (RESOURCE_EXHAUSTED always says when).
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_STATUS_H_
