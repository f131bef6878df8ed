#include "client/term/style.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace luna::term {
namespace {

std::string_view Code(Color color) {
  switch (color) {
    case Color::kPlain:
      return "";
    case Color::kDim:
      return "2";
    case Color::kBold:
      return "1";
    case Color::kGreen:
      return "32";
    case Color::kYellow:
      return "33";
    case Color::kBlue:
      return "34";
    case Color::kMagenta:
      return "35";
    case Color::kCyan:
      return "36";
    case Color::kRed:
      return "31";
  }
  return "";
}

std::string WithCode(const std::string& code, std::string_view text) {
  std::string out = "\x1b[" + code + "m";
  out += text;
  out += "\x1b[0m";
  return out;
}

std::string Format(const char* format, double value) {
  std::array<char, 32> buffer;
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

// Three significant digits.
std::string ThreeDigits(double value) {
  return Format(value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value);
}

}  // namespace

std::string Style::Paint(Color color, std::string_view text) const {
  if (!colors_ || color == Color::kPlain || text.empty()) return std::string(text);
  return WithCode(std::string(Code(color)), text);
}

// On a ground of its own colour a text is a solid block, and still there to be copied.
std::string Style::PaintBlock(Color color, std::string_view text) const {
  if (!colors_ || text.empty()) return std::string(text);
  std::string ground(Code(color));
  ground.front() = '4';  // 3x is the colour of the letters, 4x that of the ground
  return WithCode(std::string(Code(color)) + ";" + ground, text);
}

std::string Style::Bar(double fraction, int columns) const {
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  int filled = static_cast<int>(std::lround(clamped * columns));
  if (filled == 0 && clamped > 0) filled = 1;  // something is never shown as nothing
  filled = std::min(filled, columns);
  const Color color = clamped < 0.75 ? Color::kGreen : clamped < 0.9 ? Color::kYellow : Color::kRed;
  return PaintBlock(color, std::string(static_cast<size_t>(filled), '#')) +
         Paint(Color::kDim, std::string(static_cast<size_t>(columns - filled), '.'));
}

bool TerminalHasColors() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') && !dumb;
}

std::string Bytes(uint64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const bool whole = unit == 0 || value == std::floor(value);
  std::string out = whole ? Format("%.0f", value) : ThreeDigits(value);
  out += ' ';
  out += kUnits[unit];
  return out;
}

std::string WithCommas(uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string Millis(double milliseconds) {
  if (!std::isfinite(milliseconds)) return "-";
  if (milliseconds < 0.9995) return Format("%.0f µs", milliseconds * 1000);
  if (milliseconds < 999.5) return ThreeDigits(milliseconds) + " ms";
  return ThreeDigits(milliseconds / 1000) + " s";
}

}  // namespace luna::term
