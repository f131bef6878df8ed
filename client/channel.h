// How the client connects.
#ifndef LUNA_CLIENT_CHANNEL_H_
#define LUNA_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace luna::client {

inline constexpr char kDefaultServer[] = "127.0.0.1:50051";
// The largest message taken from the server: a snapshot of some thousand sessions, or a long answer
// with log-probabilities.
inline constexpr int kMaxReceiveBytes = 64 * 1024 * 1024;

struct ChannelOptions {
  std::string server = kDefaultServer;  // HOST:PORT
  // A TCP connection of its own, as a client on another machine would have. Otherwise channels of
  // one process to one server share theirs.
  bool own_connection = false;
};

// Connects at the first call. Idle connections are kept alive through flaky Wi-Fi by a ping every
// 30 s; the connection is not encrypted.
std::shared_ptr<grpc::Channel> Connect(const ChannelOptions& options);

}  // namespace luna::client

#endif  // LUNA_CLIENT_CHANNEL_H_
