#include "core/text/utf8.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace luna::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes of a character by its first byte; 0 where none begins with it.
size_t CharacterSize(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

// The second byte carries the limits against overlong forms, surrogates and U+110000.
bool IsSecondByte(uint8_t lead, uint8_t byte) {
  switch (lead) {
    case 0xE0:
      return byte >= 0xA0 && byte <= 0xBF;
    case 0xED:
      return byte >= 0x80 && byte <= 0x9F;
    case 0xF0:
      return byte >= 0x90 && byte <= 0xBF;
    case 0xF4:
      return byte >= 0x80 && byte <= 0x8F;
    default:
      return byte >= 0x80 && byte <= 0xBF;
  }
}

// Bytes of ASCII at the start of `text`.
size_t AsciiPrefix(std::string_view text) {
  size_t size = 0;
  for (uint64_t word; size + sizeof(word) <= text.size(); size += sizeof(word)) {
    std::memcpy(&word, text.data() + size, sizeof(word));
    if (word & 0x8080808080808080u) break;
  }
  while (size < text.size() && static_cast<uint8_t>(text[size]) < 0x80) ++size;
  return size;
}

}  // namespace

size_t ValidUtf8Prefix(std::string_view text) {
  size_t offset = 0;
  while (true) {
    offset += AsciiPrefix(text.substr(offset));
    if (offset == text.size()) return offset;
    const auto lead = static_cast<uint8_t>(text[offset]);
    const size_t size = CharacterSize(lead);
    if (size < 2 || size > text.size() - offset) return offset;
    if (!IsSecondByte(lead, static_cast<uint8_t>(text[offset + 1]))) return offset;
    for (size_t i = 2; i < size; ++i) {
      if ((static_cast<uint8_t>(text[offset + i]) & 0xC0) != 0x80) return offset;
    }
    offset += size;
  }
}

absl::Status CheckUtf8(std::string_view text) {
  const size_t valid = ValidUtf8Prefix(text);
  if (valid == text.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the text is not valid UTF-8: byte ", valid,
                                                 " of ", text.size(),
                                                 " begins a malformed character"));
}

char32_t NextCodePoint(std::string_view text, size_t& offset) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[offset + i]); };
  const size_t size = Utf8Length(text[offset]);
  char32_t code_point = byte(0);
  if (size == 2) code_point = (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
  if (size == 3) {
    code_point = (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
  }
  if (size == 4) {
    code_point = (byte(0) & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 |
                 (byte(3) & 0x3Fu);
  }
  offset += size;
  return code_point;
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto put_continuation = [&](int shift) { put(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put_continuation(0);
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put_continuation(6);
    put_continuation(0);
  } else {
    put(0xF0 | code_point >> 18);
    put_continuation(12);
    put_continuation(6);
    put_continuation(0);
  }
}

bool Utf8Repairer::Continues(uint8_t byte) const {
  if (pending_size_ == 1) return IsSecondByte(static_cast<uint8_t>(pending_[0]), byte);
  return (byte & 0xC0) == 0x80;
}

void Utf8Repairer::Push(std::string_view bytes, std::string& out) {
  size_t offset = 0;
  while (offset < bytes.size()) {
    if (pending_size_ == 0) {
      const size_t valid = ValidUtf8Prefix(bytes.substr(offset));
      out.append(bytes.substr(offset, valid));
      offset += valid;
      if (offset == bytes.size()) return;
      needed_size_ = CharacterSize(static_cast<uint8_t>(bytes[offset]));
      if (needed_size_ == 0) {
        out.append(kReplacement);
      } else {
        pending_[pending_size_++] = bytes[offset];
      }
      ++offset;
      continue;
    }
    if (!Continues(static_cast<uint8_t>(bytes[offset]))) {
      Flush(out);
      continue;
    }
    pending_[pending_size_++] = bytes[offset++];
    if (pending_size_ == needed_size_) {
      out.append(pending_, pending_size_);
      pending_size_ = 0;
    }
  }
}

void Utf8Repairer::Flush(std::string& out) {
  if (pending_size_ > 0) out.append(kReplacement);
  pending_size_ = 0;
}

}  // namespace luna::text
