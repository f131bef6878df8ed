// UTF-8 as Unicode 15, chapter 3.9, defines it: no surrogates, no overlong forms, at most U+10FFFF.
#ifndef LUNA_CORE_TEXT_UTF8_H_
#define LUNA_CORE_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace luna::text {

// Bytes of the longest well-formed prefix that ends between two characters.
size_t ValidUtf8Prefix(std::string_view text);

// INVALID_ARGUMENT with the offset of the first malformed byte.
absl::Status CheckUtf8(std::string_view text);

// Bytes of the character that begins with `lead`, in well-formed text.
inline size_t Utf8Length(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `offset` of well-formed text; advances `offset` past it.
char32_t NextCodePoint(std::string_view text, size_t& offset);

// `code_point` must be a scalar value.
void AppendUtf8(char32_t code_point, std::string& out);

// Turns bytes that come in pieces into well-formed text. What can no longer become a character
// comes out as U+FFFD, one for each maximal malformed part ("substitution of maximal subparts").
class Utf8Repairer {
 public:
  // Appends what became certain with `bytes` to `out`; holds at most three bytes back.
  void Push(std::string_view bytes, std::string& out);
  // The end: an incomplete character in hand becomes U+FFFD.
  void Flush(std::string& out);

 private:
  bool Continues(uint8_t byte) const;

  char pending_[4] = {};  // an incomplete character
  size_t pending_size_ = 0;
  size_t needed_size_ = 0;  // bytes of the whole character
};

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_UTF8_H_
