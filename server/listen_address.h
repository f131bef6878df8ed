// Where the server listens, and where others find it.
#ifndef LUNA_SERVER_LISTEN_ADDRESS_H_
#define LUNA_SERVER_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace luna::server {

struct ListenAddress {
  std::string host;  // without brackets
  int port = 0;      // 0: a free one

  // Only this machine can reach it.
  bool IsLoopback() const;
  // Every interface: 0.0.0.0, [::].
  bool IsAny() const;
  // As gRPC takes it and as it is printed: "127.0.0.1:50051", "[::1]:50051".
  std::string ToString() const;
};

// "HOST:PORT". INVALID_ARGUMENT names --listen, the value and the form.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

// The addresses of this machine's interfaces that others may reach, IPv4 first, no loopback or
// link-local.
std::vector<std::string> ReachableHosts();

}  // namespace luna::server

#endif  // LUNA_SERVER_LISTEN_ADDRESS_H_
