#include "tests/benchmarks/event_stream.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::benchmarks {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kLongestChunk = size_t{1} << 30;

}  // namespace

absl::Status EventStream::Feed(std::string_view bytes) {
  bytes_.append(bytes);
  for (bool advanced = true; advanced;) LUNA_RETURN_IF_ERROR(Step(&advanced));
  return absl::OkStatus();
}

absl::Status EventStream::Step(bool* advanced) {
  *advanced = false;
  if (state_ == State::kEnded || bytes_.empty()) return absl::OkStatus();
  if (state_ == State::kChunk) {
    const size_t count = std::min(chunk_left_, bytes_.size());
    TakeText(std::string_view(bytes_).substr(0, count));
    bytes_.erase(0, count);
    chunk_left_ -= count;
    if (chunk_left_ == 0) state_ = State::kChunkEnd;
    *advanced = true;
    return absl::OkStatus();
  }
  const std::string_view end = state_ == State::kHead ? "\r\n\r\n" : kLineEnd;
  const size_t at = bytes_.find(end);
  if (at == std::string::npos) return absl::OkStatus();
  const std::string taken = bytes_.substr(0, at);
  bytes_.erase(0, at + end.size());
  *advanced = true;
  if (state_ == State::kHead) return TakeHead(taken);
  if (state_ == State::kChunkSize) return TakeChunkSize(taken);
  state_ = State::kChunkSize;
  return absl::OkStatus();
}

absl::Status EventStream::TakeHead(std::string_view head) {
  std::string lower(head);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string_view status = head.substr(0, head.find(kLineEnd));
  if (status.find(" 200") == std::string_view::npos) {
    return absl::UnavailableError(
        absl::StrCat("the server answered \"", AbslView(status), "\": ", bytes_));
  }
  if (lower.find("transfer-encoding: chunked") == std::string::npos) {
    return absl::InvalidArgumentError("the answer is not a chunked stream");
  }
  state_ = State::kChunkSize;
  return absl::OkStatus();
}

absl::Status EventStream::TakeChunkSize(std::string_view line) {
  const char* end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data(), end, chunk_left_, 16);
  const bool whole = error == std::errc() && (rest == end || *rest == ';');
  if (!whole || chunk_left_ > kLongestChunk) {
    return absl::InvalidArgumentError(absl::StrCat("\"", AbslView(line), "\" is no chunk's size"));
  }
  state_ = chunk_left_ == 0 ? State::kEnded : State::kChunk;
  return absl::OkStatus();
}

void EventStream::TakeText(std::string_view text) {
  constexpr std::string_view kData = "data: ";
  while (!text.empty()) {
    const size_t end = text.find('\n');
    line_.append(text.substr(0, end));
    if (end == std::string_view::npos) return;
    if (line_.compare(0, kData.size(), kData) == 0) {
      on_data_(std::string_view(line_).substr(kData.size()));
    }
    line_.clear();
    text.remove_prefix(end + 1);
  }
}

}  // namespace luna::benchmarks
