#include <gtest/gtest.h>

#include <string>

#include "core/base/status_details.h"
#include "luna/rpc/error_details.pb.h"
#include "server/rpc/peer.h"
#include "server/rpc/status.h"

namespace luna::rpc {
namespace {

TEST(PeerTest, IsTheAddressWithoutItsPort) {
  struct Case {
    const char* peer;
    const char* name;
    bool loopback;
  };
  const Case cases[] = {
      {"ipv4:127.0.0.1:41234", "ipv4:127.0.0.1", true},
      {"ipv4:10.0.0.7:1", "ipv4:10.0.0.7", false},
      {"ipv6:[::1]:50051", "ipv6:[::1]", true},
      {"ipv6:%5B::1%5D:50051", "ipv6:[::1]", true},
      {"ipv6:[fe80::1%25eth0]:9", "ipv6:[fe80::1%eth0]", false},
      {"ipv6:[::ffff:127.0.0.1]:9", "ipv6:[::ffff:127.0.0.1]", true},
      {"ipv6:[2001:db8::2]:9", "ipv6:[2001:db8::2]", false},
      {"unknown", "unknown", false},
      {"", "", false},
  };
  for (const Case& c : cases) {
    const Caller caller = ParsePeer(c.peer);
    EXPECT_EQ(caller.name, c.name) << c.peer;
    EXPECT_EQ(caller.loopback, c.loopback) << c.peer;
  }
}

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

template <typename T>
int Find(const google::rpc::Status& status, T& out) {
  int found = 0;
  for (const auto& any : status.details()) found += any.Is<T>() && any.UnpackTo(&out);
  return found;
}

TEST(StatusTest, OkHasNoDetails) {
  const grpc::Status status = ToGrpc(absl::OkStatus());
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(status.error_details().empty());
}

TEST(StatusTest, CodeAndMessageAreTheSameInBothPlaces) {
  const grpc::Status status = ToGrpc(absl::NotFoundError("no such session"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no such session");
  const google::rpc::Status details = Details(status);
  EXPECT_EQ(details.code(), 5);
  EXPECT_EQ(details.message(), "no such session");
  google::rpc::ErrorInfo info;
  ASSERT_EQ(Find(details, info), 1);
  EXPECT_EQ(info.reason(), "NOT_FOUND");
  EXPECT_EQ(info.domain(), "luna");
  google::rpc::RetryInfo retry;
  EXPECT_EQ(Find(details, retry), 0);
}

TEST(StatusTest, ALongMessageIsCutAtACharacter) {
  std::string message = "x";
  while (message.size() < 100'000) message += "뷁";
  const grpc::Status status = ToGrpc(absl::InternalError(message));
  EXPECT_LT(status.error_message().size() + status.error_details().size(), 4096u);
  EXPECT_EQ(status.error_message(), message.substr(0, 1024) + "…");  // 1 + 341 * 3
  EXPECT_EQ(Details(status).message(), status.error_message());
}

TEST(StatusTest, ANamedFieldIsAViolation) {
  google::rpc::BadRequest bad;
  ASSERT_EQ(Find(Details(ToGrpc(InvalidField("sampling.top_p", "2 is outside (0, 1]"))), bad), 1);
  ASSERT_EQ(bad.field_violations_size(), 1);
  EXPECT_EQ(bad.field_violations(0).field(), "sampling.top_p");
  EXPECT_EQ(bad.field_violations(0).description(), "sampling.top_p: 2 is outside (0, 1]");
}

TEST(StatusTest, ResourceExhaustedAlwaysSaysWhenToTryAgain) {
  google::rpc::RetryInfo retry;
  ASSERT_EQ(Find(Details(ToGrpc(WithRetryAfter(absl::ResourceExhaustedError("full"),
                                               absl::Milliseconds(250)))),
                 retry),
            1);
  EXPECT_EQ(retry.retry_delay().nanos(), 250'000'000);
  ASSERT_EQ(Find(Details(ToGrpc(absl::ResourceExhaustedError("full"))), retry), 1);
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
}

}  // namespace
}  // namespace luna::rpc
