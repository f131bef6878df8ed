// The answer to one HTTP/1.1 request whose body is a stream of server-sent events, read as its
// bytes come in.
#ifndef LUNA_TESTS_BENCHMARKS_EVENT_STREAM_H_
#define LUNA_TESTS_BENCHMARKS_EVENT_STREAM_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace luna::benchmarks {

// Knows what such a server needs: status 200, a chunked body, events of one "data:" line each.
class EventStream {
 public:
  // `on_data` gets what follows "data: "; the view is valid during the call.
  explicit EventStream(std::function<void(std::string_view data)> on_data)
      : on_data_(std::move(on_data)) {}

  // The next bytes, cut anywhere. UNAVAILABLE with the server's words for a status other than 200;
  // INVALID_ARGUMENT for an answer that is not such a stream. After an error: no more calls.
  absl::Status Feed(std::string_view bytes);
  // The last chunk is here.
  bool ended() const { return state_ == State::kEnded; }

 private:
  enum class State { kHead, kChunkSize, kChunk, kChunkEnd, kEnded };

  // True if it took something of `bytes_`.
  absl::Status Step(bool* advanced);
  absl::Status TakeHead(std::string_view head);
  absl::Status TakeChunkSize(std::string_view line);
  void TakeText(std::string_view text);

  const std::function<void(std::string_view data)> on_data_;
  State state_ = State::kHead;
  std::string bytes_;  // that came and are not taken
  size_t chunk_left_ = 0;
  std::string line_;  // of the body, not complete yet
};

}  // namespace luna::benchmarks

#endif  // LUNA_TESTS_BENCHMARKS_EVENT_STREAM_H_
