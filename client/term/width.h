// How many columns a text takes on a terminal, and cutting it without breaking a character. A
// character here is a grapheme cluster: what a reader sees as one, be it a Hangul syllable made of
// jamo or an emoji with joiners. All functions are pure and take UTF-8; an invalid byte counts as
// one column and is shown as U+FFFD.
#ifndef LUNA_CLIENT_TERM_WIDTH_H_
#define LUNA_CLIENT_TERM_WIDTH_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace luna::term {

enum class Align { kLeft, kRight };

// Columns on a terminal: 2 for wide East Asian characters and emoji, 0 for marks that combine.
int DisplayWidth(std::string_view text);

// The longest beginning of whole characters that fits `columns`; ends with ".." where something was
// cut.
std::string CutToWidth(std::string_view text, int columns);

// The longest end of whole characters that fits, beginning with ".." where something was cut.
std::string CutFrontToWidth(std::string_view text, int columns);

// Exactly `columns` wide: cut or padded with spaces.
std::string Fit(std::string_view text, int columns, Align align = Align::kLeft);

// The longest beginning of at most `max_chars` characters, cut at the end of a sentence where one
// ends in its second half, else between characters and with "...". The whole text when it is short.
std::string CutAtSentence(std::string_view text, size_t max_chars);

// Lines of at most `columns` (>= 2), broken at blanks, and inside a word only where it is wider
// than a line. Line ends of the text stay; control characters do not.
std::vector<std::string> Wrap(std::string_view text, int columns);

// One line that a terminal cannot be upset by: control characters become spaces, runs of blanks one
// space, invalid bytes U+FFFD, marks that turn the direction of writing nothing, ends trimmed.
std::string OneLine(std::string_view text);

// Text for a terminal: control characters but newline and tab are dropped, so that no escape
// sequence of a model's reaches it; so are marks that turn the direction of writing.
std::string WithoutControls(std::string_view text);

}  // namespace luna::term

#endif  // LUNA_CLIENT_TERM_WIDTH_H_
