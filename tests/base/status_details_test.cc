#include "core/base/status_details.h"

#include "gtest/gtest.h"

namespace luna {
namespace {

TEST(StatusDetailsTest, APlainStatusCarriesNothing) {
  const absl::Status status = absl::InternalError("x");
  EXPECT_EQ(FieldOf(status), "");
  EXPECT_FALSE(RetryAfterOf(status).has_value());
}

TEST(StatusDetailsTest, AFieldAndADelayStayWithTheirStatus) {
  absl::Status status = WithField(absl::ResourceExhaustedError("full"), "session_id");
  status = WithRetryAfter(status, absl::Milliseconds(1500));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(FieldOf(status), "session_id");
  EXPECT_EQ(RetryAfterOf(status), absl::Milliseconds(1500));
}

TEST(StatusDetailsTest, ADelayIsNeverZero) {
  const absl::Status status = WithRetryAfter(absl::UnavailableError("x"), absl::Microseconds(3));
  EXPECT_EQ(RetryAfterOf(status), absl::Milliseconds(1));
}

TEST(StatusDetailsTest, AnInvalidFieldIsNamedInTheMessageToo) {
  const absl::Status status = InvalidField("stop[2]", "0 bytes; it takes 1 to 256");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "stop[2]: 0 bytes; it takes 1 to 256");
  EXPECT_EQ(FieldOf(status), "stop[2]");
}

}  // namespace
}  // namespace luna
