#include "client/status.h"

#include <gtest/gtest.h>

#include "client/answer.h"
#include "luna/rpc/error_details.pb.h"
#include "tests/client/fake/fake_server.h"

namespace luna::client {
namespace {

TEST(StatusTest, NamesTheFieldThatWasWrong) {
  const absl::Status status = FromGrpc(fake::BadRequest("sampling.top_p", "2 is above 1"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Describe(status),
            "Invalid argument: the request is not valid\n  sampling.top_p: 2 is above 1");
  EXPECT_FALSE(RetryDelay(status).has_value());
}

TEST(StatusTest, DoesNotSayTwiceWhatTheMessageSays) {
  grpc::Status wire = fake::BadRequest("top_p", "2 is above 1");
  wire = grpc::Status(wire.error_code(), "top_p: 2 is above 1", wire.error_details());
  EXPECT_EQ(Describe(FromGrpc(wire)), "Invalid argument: top_p: 2 is above 1");
}

// As the server sends them: the message is the description, and the reason is the code.
grpc::Status FromServer(grpc::StatusCode code, const std::string& message,
                        const std::string& field) {
  google::rpc::Status full;
  google::rpc::ErrorInfo info;
  info.set_reason(absl::StatusCodeToString(static_cast<absl::StatusCode>(code)));
  full.add_details()->PackFrom(info);
  google::rpc::BadRequest bad;
  bad.add_field_violations()->set_field(field);
  bad.mutable_field_violations(0)->set_description(message);
  full.add_details()->PackFrom(bad);
  return grpc::Status(code, message, full.SerializeAsString());
}

TEST(StatusTest, WhatTheServerSaysIsToldOnce) {
  EXPECT_EQ(Describe(FromGrpc(FromServer(grpc::StatusCode::INVALID_ARGUMENT,
                                         "sampling.top_p: 2 is above 1", "sampling.top_p"))),
            "Invalid argument: sampling.top_p: 2 is above 1");
  EXPECT_EQ(Describe(FromGrpc(
                FromServer(grpc::StatusCode::NOT_FOUND, "no session has this id", "session_id"))),
            "Not found: no session has this id (session_id)");
  // "context" does not name the field text.
  EXPECT_EQ(Describe(FromGrpc(
                FromServer(grpc::StatusCode::OUT_OF_RANGE, "the context is 512 tokens", "text"))),
            "Out of range: the context is 512 tokens (text)");
}

TEST(StatusTest, AMessageThatIsOnlyTheCodeIsLeftOut) {
  EXPECT_EQ(Describe(absl::CancelledError("CANCELLED")), "Cancelled");
}

TEST(StatusTest, TellsWhenToTryAgain) {
  const absl::Status status =
      FromGrpc(fake::RetryLater("the queue is full", absl::Milliseconds(1500)));
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(1500));
  EXPECT_EQ(Describe(status), "Resource exhausted: the queue is full\n  try again in 1.5s");
}

TEST(StatusTest, BrokenDetailsAreLeftOut) {
  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::NOT_FOUND, "no session x", "\x01\x02garbage"));
  EXPECT_EQ(Describe(status), "Not found: no session x");
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

v1::GenerateEvent Event(uint64_t seq) {
  v1::GenerateEvent event;
  event.set_seq(seq);
  return event;
}

TEST(AnswerTest, JoinsDeltas) {
  Answer answer;
  v1::GenerateEvent event = Event(0);
  event.mutable_delta()->set_text("토");
  event.mutable_delta()->add_token_ids(1);
  EXPECT_TRUE(answer.Add(event).ok());
  event.set_seq(1);
  event.mutable_delta()->set_text("끼");
  EXPECT_TRUE(answer.Add(event).ok());
  EXPECT_EQ(answer.text, "토끼");
  EXPECT_EQ(answer.token_ids, (std::vector<uint32_t>{1, 1}));
}

TEST(AnswerTest, RefusesAGapAndAnythingAfterTheEnd) {
  Answer answer;
  EXPECT_TRUE(absl::IsDataLoss(answer.Add(Event(1))));
  v1::GenerateEvent end = Event(0);
  end.mutable_finished();
  EXPECT_TRUE(answer.Add(end).ok());
  EXPECT_TRUE(absl::IsDataLoss(answer.Add(Event(1))));
}

TEST(AnswerTest, AnErrorEventIsItsStatus) {
  Answer answer;
  v1::GenerateEvent event = Event(0);
  event.mutable_error()->set_code(13);
  event.mutable_error()->set_message("a kernel failed");
  EXPECT_EQ(answer.Add(event), absl::InternalError("a kernel failed"));
}

}  // namespace
}  // namespace luna::client
