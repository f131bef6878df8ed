#include "server/rpc/status.h"

#include <google/protobuf/util/time_util.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "core/base/absl_view.h"
#include "core/base/status_details.h"
#include "luna/rpc/error_details.pb.h"

namespace luna::rpc {
namespace {

constexpr absl::Duration kDefaultRetry = absl::Seconds(1);

// Of a message, which travels twice in the trailers: clients refuse trailers of more than 8 KiB.
constexpr size_t kMaxMessageBytes = 1024;

// Cut at a character, with a mark, if it is too long.
std::string Shortened(std::string_view message) {
  if (message.size() <= kMaxMessageBytes) return std::string(message);
  size_t end = kMaxMessageBytes;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  return std::string(message.substr(0, end)) + "…";
}

void AddRetry(absl::Duration delay, google::rpc::Status& out) {
  google::rpc::RetryInfo info;
  *info.mutable_retry_delay() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(absl::ToInt64Milliseconds(delay));
  out.add_details()->PackFrom(info);
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = Shortened(StdView(status.message()));

  google::rpc::Status full;
  full.set_code(static_cast<int>(status.code()));
  full.set_message(message);

  google::rpc::ErrorInfo info;
  info.set_reason(absl::StatusCodeToString(status.code()));
  info.set_domain("luna");
  full.add_details()->PackFrom(info);

  if (const std::string field = FieldOf(status); !field.empty()) {
    google::rpc::BadRequest bad;
    auto* violation = bad.add_field_violations();
    violation->set_field(field);
    violation->set_description(message);
    full.add_details()->PackFrom(bad);
  }
  if (const std::optional<absl::Duration> delay = RetryAfterOf(status)) {
    AddRetry(*delay, full);
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    AddRetry(kDefaultRetry, full);
  }
  // absl's codes are the canonical ones, gRPC's too.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      full.SerializeAsString());
}

}  // namespace luna::rpc
