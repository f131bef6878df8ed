// GPT-2's spelling of bytes as printable characters: the printable bytes of Latin-1 stand for
// themselves, the other 68 for U+0100 and up in order. Vocabularies of byte-level BPE are written
// so.
#ifndef LUNA_CORE_TEXT_BYTE_ALPHABET_H_
#define LUNA_CORE_TEXT_BYTE_ALPHABET_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace luna::text {

// The character that stands for `byte`, in UTF-8.
std::string SpellByte(uint8_t byte);

// Appends the bytes that `spelling` stands for; false, and nothing appended, if `spelling` (valid
// UTF-8) has a character outside the alphabet.
bool AppendSpelledBytes(std::string_view spelling, std::string& out);

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_BYTE_ALPHABET_H_
