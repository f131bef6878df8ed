#include "client/term/width.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace luna::term {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
// Not "…": whether that takes one column or two is up to the terminal, as for many marks that East
// Asian character sets have too.
constexpr std::string_view kCut = "..";
constexpr utf8proc_int32_t kEmojiPresentation = 0xFE0F;

struct CodePoint {
  utf8proc_int32_t value = 0;
  size_t offset = 0;
  size_t bytes = 0;
  bool valid = true;
};

// A grapheme cluster: bytes [begin, end) of the text.
struct Cluster {
  size_t begin = 0;
  size_t end = 0;
  int columns = 0;
  utf8proc_int32_t first = 0;
};

CodePoint Decode(std::string_view text, size_t offset) {
  CodePoint point;
  point.offset = offset;
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + offset;
  const utf8proc_ssize_t used =
      utf8proc_iterate(data, static_cast<utf8proc_ssize_t>(text.size() - offset), &point.value);
  point.valid = used > 0;
  point.bytes = point.valid ? static_cast<size_t>(used) : 1;
  if (!point.valid) point.value = 0xFFFD;
  return point;
}

bool IsRegionalIndicator(utf8proc_int32_t value) { return value >= 0x1F1E6 && value <= 0x1F1FF; }

// Terminals draw a cluster as one glyph as wide as its widest part; flags and characters with the
// emoji selector are wide although their parts are not.
void Widen(Cluster& cluster, const CodePoint& point, bool starts) {
  cluster.columns = std::max(cluster.columns, utf8proc_charwidth(point.value));
  const bool flag = IsRegionalIndicator(cluster.first) && IsRegionalIndicator(point.value);
  if (!starts && (flag || point.value == kEmojiPresentation)) cluster.columns = 2;
}

std::vector<Cluster> Clusters(std::string_view text) {
  std::vector<Cluster> clusters;
  utf8proc_int32_t state = 0;
  utf8proc_int32_t previous = 0;
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = Decode(text, offset);
    const bool starts =
        clusters.empty() || utf8proc_grapheme_break_stateful(previous, point.value, &state);
    if (starts) clusters.push_back({offset, offset, 0, point.value});
    Cluster& cluster = clusters.back();
    cluster.end = offset + point.bytes;
    Widen(cluster, point, starts);
    previous = point.value;
    offset += point.bytes;
  }
  return clusters;
}

std::string ReplaceInvalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = Decode(text, offset);
    out += point.valid ? text.substr(offset, point.bytes) : kReplacement;
    offset += point.bytes;
  }
  return out;
}

bool IsControl(utf8proc_int32_t value) { return value < 0x20 || (value >= 0x7F && value < 0xA0); }

// Marks that turn the direction of writing: with them a text can show what it does not say, and
// reorder what stands beside it.
bool TurnsDirection(utf8proc_int32_t value) {
  return value == 0x061C || value == 0x200E || value == 0x200F ||
         (value >= 0x202A && value <= 0x202E) || (value >= 0x2066 && value <= 0x2069);
}

bool EndsSentence(utf8proc_int32_t value) {
  return value == '.' || value == '!' || value == '?' || value == 0x3002 || value == '\n';
}

// Closing quotes belong to the sentence before them.
bool ClosesQuote(utf8proc_int32_t value) {
  return value == '"' || value == '\'' || value == 0x201D || value == 0x2019 || value == ')';
}

std::string_view CutMark(int columns) {
  return kCut.substr(0, static_cast<size_t>(std::max(columns, 0)));
}

// Adds the lines of a text without line ends.
void WrapParagraph(std::string_view text, int columns, std::vector<std::string>& lines) {
  std::string line;
  int used = 0;
  size_t blank_end = 0;  // in `line`: after the last blank, where it may be broken
  for (const Cluster& cluster : Clusters(text)) {
    const std::string_view bytes = text.substr(cluster.begin, cluster.end - cluster.begin);
    const bool blank = bytes == " " || bytes == "\t";
    if (used + cluster.columns > columns && !blank) {
      const size_t at = blank_end > 0 ? blank_end : line.size();
      std::string head = line.substr(0, at);
      head.erase(head.find_last_not_of(' ') + 1);
      lines.push_back(std::move(head));
      line.erase(0, at);
      used = DisplayWidth(line);
      blank_end = 0;
    }
    if (blank && line.empty()) continue;
    line += blank ? " " : bytes;
    used += blank ? 1 : cluster.columns;
    if (blank) blank_end = line.size();
  }
  line.erase(line.find_last_not_of(' ') + 1);
  lines.push_back(std::move(line));
}

}  // namespace

int DisplayWidth(std::string_view text) {
  int columns = 0;
  for (const Cluster& cluster : Clusters(text)) columns += cluster.columns;
  return columns;
}

std::string CutToWidth(std::string_view text, int columns) {
  if (columns <= 0) return "";
  if (DisplayWidth(text) <= columns) return ReplaceInvalid(text);
  const std::string_view mark = CutMark(columns);
  int used = static_cast<int>(mark.size());
  size_t end = 0;
  for (const Cluster& cluster : Clusters(text)) {
    if (used + cluster.columns > columns) break;
    used += cluster.columns;
    end = cluster.end;
  }
  return ReplaceInvalid(text.substr(0, end)) + std::string(mark);
}

std::string CutFrontToWidth(std::string_view text, int columns) {
  if (columns <= 0) return "";
  if (DisplayWidth(text) <= columns) return ReplaceInvalid(text);
  const std::vector<Cluster> clusters = Clusters(text);
  const std::string_view mark = CutMark(columns);
  int used = static_cast<int>(mark.size());
  size_t begin = text.size();
  for (auto it = clusters.rbegin(); it != clusters.rend(); ++it) {
    if (used + it->columns > columns) break;
    used += it->columns;
    begin = it->begin;
  }
  return std::string(mark) + ReplaceInvalid(text.substr(begin));
}

std::string Fit(std::string_view text, int columns, Align align) {
  std::string cut = CutToWidth(text, columns);
  const std::string padding(static_cast<size_t>(std::max(0, columns - DisplayWidth(cut))), ' ');
  return align == Align::kLeft ? cut + padding : padding + cut;
}

std::string CutAtSentence(std::string_view text, size_t max_chars) {
  const std::vector<Cluster> clusters = Clusters(text);
  if (clusters.size() <= max_chars) return ReplaceInvalid(text);
  size_t sentence_end = 0;  // in clusters
  for (size_t i = 0; i < max_chars; ++i) {
    if (!EndsSentence(clusters[i].first)) continue;
    const bool quoted = i + 1 < max_chars && ClosesQuote(clusters[i + 1].first);
    sentence_end = i + (quoted ? 2 : 1);
  }
  if (sentence_end * 2 >= max_chars && sentence_end > 0) {
    return ReplaceInvalid(text.substr(0, clusters[sentence_end - 1].end));
  }
  if (max_chars == 0) return "";
  return ReplaceInvalid(text.substr(0, clusters[max_chars - 1].end)) + "...";
}

std::vector<std::string> Wrap(std::string_view text, int columns) {
  std::vector<std::string> lines;
  const std::string clean = WithoutControls(text);
  std::string_view rest = clean;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    WrapParagraph(rest.substr(0, end), std::max(columns, 2), lines);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lines;
}

std::string OneLine(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool blank = false;
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = Decode(text, offset);
    if (IsControl(point.value) || point.value == ' ') {
      blank = !out.empty();
    } else if (!TurnsDirection(point.value)) {
      if (blank) out += ' ';
      blank = false;
      out += point.valid ? text.substr(offset, point.bytes) : kReplacement;
    }
    offset += point.bytes;
  }
  return out;
}

std::string WithoutControls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = Decode(text, offset);
    const bool keep = (!IsControl(point.value) && !TurnsDirection(point.value)) ||
                      point.value == '\n' || point.value == '\t';
    if (keep) out += point.valid ? text.substr(offset, point.bytes) : kReplacement;
    offset += point.bytes;
  }
  return out;
}

}  // namespace luna::term
