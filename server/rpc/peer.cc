#include "server/rpc/peer.h"

#include "absl/strings/str_replace.h"
#include "core/base/absl_view.h"

namespace luna::rpc {
namespace {

bool IsLoopback(std::string_view name) {
  return name.starts_with("ipv4:127.") || name == "ipv6:[::1]" ||
         name.starts_with("ipv6:[::ffff:127.");
}

}  // namespace

Caller ParsePeer(std::string_view peer) {
  // gRPC writes the address as part of a URI: brackets and the % before a zone come encoded.
  std::string decoded = absl::StrReplaceAll(
      AbslView(peer), {{"%5B", "["}, {"%5D", "]"}, {"%5b", "["}, {"%5d", "]"}, {"%25", "%"}});
  Caller caller;
  const size_t port = decoded.rfind(':');
  const size_t bracket = decoded.rfind(']');
  const bool has_port = port != std::string::npos && port > decoded.find(':') &&
                        (bracket == std::string::npos || port > bracket);
  caller.name = has_port ? decoded.substr(0, port) : decoded;
  caller.loopback = IsLoopback(caller.name);
  return caller;
}

}  // namespace luna::rpc
