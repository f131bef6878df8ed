// Colours and a few drawing pieces for terminals, in plain ANSI. With colours off every function
// gives the same text without escape sequences, so a frame has the same columns either way.
#ifndef LUNA_CLIENT_TERM_STYLE_H_
#define LUNA_CLIENT_TERM_STYLE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace luna::term {

enum class Color { kPlain, kDim, kBold, kGreen, kYellow, kBlue, kMagenta, kCyan, kRed };

class Style {
 public:
  explicit Style(bool colors) : colors_(colors) {}

  std::string Paint(Color color, std::string_view text) const;
  // A bar of `columns` columns, of which `fraction` in [0, 1] is filled. Green below three
  // quarters, yellow below nine tenths, red above. Of ASCII: the block characters are as wide as
  // the terminal likes.
  std::string Bar(double fraction, int columns) const;

 private:
  std::string PaintBlock(Color color, std::string_view text) const;

  bool colors_;
};

// True where file descriptor 1 is a terminal that takes colours: NO_COLOR is unset and TERM is not
// "dumb".
bool TerminalHasColors();

// "512 KiB", "16.4 MiB": three digits, binary units.
std::string Bytes(uint64_t bytes);
// "1,234,567".
std::string WithCommas(uint64_t value);
// "950 µs", "12.3 ms", "1.24 s"; from milliseconds.
std::string Millis(double milliseconds);

}  // namespace luna::term

#endif  // LUNA_CLIENT_TERM_STYLE_H_
