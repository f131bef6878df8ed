#include "core/text/byte_alphabet.h"

#include <array>

#include "core/text/utf8.h"

namespace luna::text {
namespace {

constexpr int kAlphabetEnd = 256 + 68;  // one past the last character in use

struct Alphabet {
  std::array<char16_t, 256> character_of{};
  std::array<int16_t, kAlphabetEnd> byte_of{};  // -1: not in the alphabet
};

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte_of) byte = -1;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const int character = StandsForItself(byte) ? byte : next++;
    alphabet.character_of[byte] = static_cast<char16_t>(character);
    alphabet.byte_of[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

std::string SpellByte(uint8_t byte) {
  std::string spelling;
  AppendUtf8(kAlphabet.character_of[byte], spelling);
  return spelling;
}

bool AppendSpelledBytes(std::string_view spelling, std::string& out) {
  const size_t size_before = out.size();
  for (size_t offset = 0; offset < spelling.size();) {
    const char32_t character = NextCodePoint(spelling, offset);
    if (character >= kAlphabetEnd || kAlphabet.byte_of[character] < 0) {
      out.resize(size_before);
      return false;
    }
    out.push_back(static_cast<char>(kAlphabet.byte_of[character]));
  }
  return true;
}

}  // namespace luna::text
