// A reader who takes little at a time gets fewer, longer messages.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using Event = v1::GenerateEvent;

// Of a connection on which hardly a message fits before it is read.
grpc::ChannelArguments NarrowWindow() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 256);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return arguments;
}

TEST(CoalescingTest, ASlowReaderGetsFewMessagesAndEveryWord) {
  constexpr int kTokens = 120;
  TestServer server(OptionsFor(kSlowModel));
  Client slow(server.AddressAt("127.0.0.1"), NarrowWindow());
  v1::GenerateRequest request = LongRequest();
  request.mutable_sampling()->set_seed(5);
  request.mutable_stopping()->set_max_tokens(kTokens);
  request.mutable_response_options()->set_logprobs(3);
  Stream stream(slow, request);
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  // All of the answer waits before it is read.
  WaitFor(server.client(), IsIdle);
  ASSERT_TRUE(stream.Finish().ok());
  RecordProperty("events", std::to_string(stream.events.size()));
  EXPECT_LT(stream.events.size(), 30u);
  EXPECT_EQ(stream.token_ids.size(), size_t{kTokens});

  v1::GenerateResponse joined;
  ASSERT_TRUE(Unary(server.client(), request, joined).ok());
  EXPECT_EQ(stream.text, joined.text());
  EXPECT_EQ(stream.token_ids,
            std::vector<uint32_t>(joined.token_ids().begin(), joined.token_ids().end()));
  int at = 0;
  for (const Event& event : stream.events) {
    for (const v1::TokenLogprobs& one : event.delta().logprobs()) {
      ASSERT_LT(at, joined.logprobs_size());
      EXPECT_EQ(one.SerializeAsString(), joined.logprobs(at++).SerializeAsString());
    }
  }
  EXPECT_EQ(at, joined.logprobs_size());
}

// A writer that is not run for a whole step takes two tokens at once, so not each time.
TEST(CoalescingTest, TheFirstTokenGoesOutAlone) {
  TestServer server(OptionsFor(kSlowModel));
  int alone = 0;
  for (int round = 0; round < 10 && alone == 0; ++round) {
    Stream stream(server.client(), LongRequest());
    ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
    alone += stream.events.back().delta().token_ids_size() == 1;
    stream.context.TryCancel();
  }
  EXPECT_GT(alone, 0);
}

}  // namespace
}  // namespace luna::integration
