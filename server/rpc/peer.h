// Who is at the other end of a connection. Until there are keys, that is all a caller is.
#ifndef LUNA_SERVER_RPC_PEER_H_
#define LUNA_SERVER_RPC_PEER_H_

#include <string>
#include <string_view>

namespace luna::rpc {

struct Caller {
  std::string name;       // the peer without its port: "ipv4:127.0.0.1", "ipv6:[::1]"
  bool loopback = false;  // on this machine
};

// `peer` as ServerContext::peer() gives it: "ipv4:10.0.0.7:41234", "ipv6:%5B::1%5D:41234".
Caller ParsePeer(std::string_view peer);

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_PEER_H_
