#include "core/sample/stop_matcher.h"

#include <algorithm>
#include <cstddef>

namespace luna::sample {
namespace {

struct Match {
  int stop = -1;
  size_t begin = 0;
};

// The earliest occurrence of a stop in `text` that ends after `old_size`, the longest of those that
// begin there. What ended before was looked at already, or was not to be looked at.
Match FindEarliest(std::span<const std::string> stops, std::string_view text, size_t old_size) {
  Match match;
  for (size_t begin = 0; begin < text.size() && match.stop < 0; ++begin) {
    const std::string_view rest = text.substr(begin);
    size_t longest = 0;
    for (size_t i = 0; i < stops.size(); ++i) {
      const size_t size = stops[i].size();
      if (size > longest && begin + size > old_size && rest.starts_with(stops[i])) {
        match = {static_cast<int>(i), begin};
        longest = size;
      }
    }
  }
  return match;
}

// Length of the longest end of `text` that a stop begins with and does not end with.
size_t PossibleBeginning(std::span<const std::string> stops, std::string_view text) {
  size_t longest = 0;
  for (const std::string& stop : stops) {
    size_t size = std::min(text.size(), stop.size() - 1);
    while (size > longest && !std::string_view(stop).starts_with(text.substr(text.size() - size))) {
      --size;
    }
    longest = std::max(longest, size);
  }
  return longest;
}

}  // namespace

int StopMatcher::Append(std::string_view text, bool armed, std::string& out) {
  if (stops_.empty()) {
    out.append(text);
    return -1;
  }
  const size_t old_size = held_.size();
  held_.append(text);
  if (armed) {
    const Match match = FindEarliest(stops_, held_, old_size);
    if (match.stop >= 0) {
      out.append(held_, 0, match.begin);
      held_.clear();
      return match.stop;
    }
  }
  const size_t settled = held_.size() - PossibleBeginning(stops_, held_);
  out.append(held_, 0, settled);
  held_.erase(0, settled);
  return -1;
}

void StopMatcher::Flush(std::string& out) {
  out.append(held_);
  held_.clear();
}

}  // namespace luna::sample
