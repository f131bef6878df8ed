// What the server tells gRPC about connections. A ping takes half a minute to come; what asks for
// it is looked at instead.
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using Arguments = std::map<std::string, int>;

// The numbers among the arguments of the server that was built last.
Arguments& Seen() {
  static Arguments seen;
  return seen;
}

class Spy final : public grpc::ServerBuilderPlugin {
 public:
  std::string name() override { return "argument_spy"; }
  void InitServer(grpc::ServerInitializer*) override {}
  void Finish(grpc::ServerInitializer*) override {}
  void ChangeArguments(const std::string&, void*) override {}
  void UpdateChannelArguments(grpc::ChannelArguments* arguments) override {
    Seen().clear();
    const grpc_channel_args all = arguments->c_channel_args();
    for (size_t i = 0; i < all.num_args; ++i) {
      if (all.args[i].type == GRPC_ARG_INTEGER) Seen()[all.args[i].key] = all.args[i].value.integer;
    }
  }
};

TEST(KeepaliveTest, DeadConnectionsAreFoundAndClientsMayPing) {
  grpc::ServerBuilder::InternalAddPluginFactory(
      +[]() -> std::unique_ptr<grpc::ServerBuilderPlugin> { return std::make_unique<Spy>(); });
  const std::unique_ptr<TestServer> server = TestServer::Loading();
  const Arguments& seen = Seen();
  ASSERT_FALSE(seen.empty());
  const auto value = [&seen](const char* key) {
    const auto it = seen.find(key);
    return it == seen.end() ? -1 : it->second;
  };
  EXPECT_EQ(value(GRPC_ARG_KEEPALIVE_TIME_MS), 30'000);
  EXPECT_EQ(value(GRPC_ARG_KEEPALIVE_TIMEOUT_MS), 20'000);
  EXPECT_EQ(value(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS), 1);
  EXPECT_EQ(value(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA), 0);
  // The contract says 10 s.
  EXPECT_GT(value(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS), 0);
  EXPECT_LE(value(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS), 10'000);
  EXPECT_EQ(value(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH), rpc::kMaxReceiveBytes);
  EXPECT_EQ(value(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH), rpc::kMaxSendBytes);
  EXPECT_EQ(value(GRPC_ARG_ALLOW_REUSEPORT), 0);
}

}  // namespace
}  // namespace luna::integration
