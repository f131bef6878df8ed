// Finds stop strings in a stream of text without ever letting the beginning of one out.
#ifndef LUNA_CORE_SAMPLE_STOP_MATCHER_H_
#define LUNA_CORE_SAMPLE_STOP_MATCHER_H_

#include <span>
#include <string>
#include <string_view>

namespace luna::sample {

// Owned by one sequence; engine thread only. Borrows the stop strings.
class StopMatcher {
 public:
  explicit StopMatcher(std::span<const std::string> stops) : stops_(stops) {}

  // Takes the text of one more token and appends to `out` what can no longer be part of a match.
  // Returns the index of the stop string whose match begins earliest (the longest, if several begin
  // there), or -1. After a match, `out` ends right before it and the rest is dropped.
  // While `armed` is false (min_tokens not reached) no match is looked for in text that ends within
  // `text`; all but a possible beginning of a later match goes out.
  int Append(std::string_view text, bool armed, std::string& out);

  // The end without a match: what was held back goes out.
  void Flush(std::string& out);

 private:
  std::span<const std::string> stops_;
  std::string held_;  // shorter than the longest stop string
};

}  // namespace luna::sample

#endif  // LUNA_CORE_SAMPLE_STOP_MATCHER_H_
