#include "tests/benchmarks/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace luna::benchmarks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string Chunk(std::string_view text) {
  char size[16];
  std::snprintf(size, sizeof(size), "%zx", text.size());
  return std::string(size) + "\r\n" + std::string(text) + "\r\n";
}

class EventStreamTest : public testing::Test {
 protected:
  std::vector<std::string> data_;
  EventStream stream_{[this](std::string_view data) { data_.emplace_back(data); }};
};

TEST_F(EventStreamTest, GivesTheSameEventsWhereverBytesAreCut) {
  const std::string answer = std::string(kHead) + Chunk("data: {\"a\":1}\n\ndata: {") +
                             Chunk("\"b\":2}\n\n: a remark\n\n") + Chunk("data: end\n\n") +
                             "0\r\n\r\n";
  for (size_t step = 1; step <= answer.size(); ++step) {
    std::vector<std::string> data;
    EventStream stream([&](std::string_view event) { data.emplace_back(event); });
    for (size_t at = 0; at < answer.size(); at += step) {
      EXPECT_FALSE(stream.ended());
      ASSERT_TRUE(stream.Feed(std::string_view(answer).substr(at, step)).ok());
      if (stream.ended()) break;
    }
    EXPECT_TRUE(stream.ended());
    EXPECT_THAT(data, ElementsAre("{\"a\":1}", "{\"b\":2}", "end"));
  }
}

TEST_F(EventStreamTest, AnEventIsGivenAsSoonAsItsLineIsHere) {
  const std::string chunk = Chunk("data: one\n\n");
  ASSERT_TRUE(stream_.Feed(kHead).ok());
  EXPECT_THAT(data_, IsEmpty());
  ASSERT_TRUE(stream_.Feed(std::string_view(chunk).substr(0, chunk.size() - 3)).ok());
  EXPECT_THAT(data_, ElementsAre("one"));
}

TEST_F(EventStreamTest, ARefusalCarriesTheServersWords) {
  const absl::Status status =
      stream_.Feed("HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\nno prompt");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("400 Bad Request"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no prompt"));
}

TEST_F(EventStreamTest, RefusesWhatIsNoStream) {
  EXPECT_EQ(stream_.Feed("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").code(),
            absl::StatusCode::kInvalidArgument);
  EventStream other([](std::string_view) {});
  EXPECT_EQ(other.Feed(std::string(kHead) + "zz\r\n").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace luna::benchmarks
