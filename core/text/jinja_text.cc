#include "core/text/jinja_text.h"

#include <utility>

namespace luna::text {
namespace {

using Kind = JinjaPart::Kind;

std::string_view Strip(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Reads the literal whose quote is at `offset`; leaves `offset` behind the closing one.
std::string ReadLiteral(std::string_view source, size_t& offset) {
  const char quote = source[offset++];
  std::string value;
  while (offset < source.size() && source[offset] != quote) {
    char c = source[offset++];
    if (c == '\\' && offset < source.size()) {
      c = source[offset++];
      if (c == 'n') c = '\n';
      if (c == 't') c = '\t';
      if (c == 'r') c = '\r';
    }
    value.push_back(c);
  }
  if (offset < source.size()) ++offset;
  return value;
}

void AddLiteral(std::string value, std::vector<JinjaPart>& parts) {
  const size_t count = parts.size();
  if (count >= 2 && parts[count - 1].kind == Kind::kCode &&
      parts[count - 2].kind == Kind::kLiteral) {
    const std::string_view between = Strip(parts.back().value);
    if (between == "+" || between == "~") {
      parts.pop_back();
      parts.back().value += value;
      return;
    }
  }
  parts.push_back({Kind::kLiteral, std::move(value)});
}

// Reads the tag whose content begins at `offset` and that `close` ends.
void ReadTag(std::string_view source, std::string_view close, size_t& offset,
             std::vector<JinjaPart>& parts) {
  std::string code;
  const auto flush = [&] {
    if (!Strip(code).empty()) parts.push_back({Kind::kCode, std::exchange(code, {})});
    code.clear();
  };
  while (offset < source.size()) {
    if (source.substr(offset).starts_with(close)) {
      offset += close.size();
      break;
    }
    if (source[offset] == '\'' || source[offset] == '"') {
      flush();
      AddLiteral(ReadLiteral(source, offset), parts);
    } else {
      code.push_back(source[offset++]);
    }
  }
  flush();
}

// The name that `code` ends by assigning to: "set NAME =". Empty if it does not.
std::string_view AssignedName(std::string_view code) {
  code = Strip(code);
  if (!code.ends_with('=') || code.ends_with("==")) return {};
  code = Strip(code.substr(0, code.size() - 1));
  const size_t space = code.find_last_of(" \t\n");
  if (space == std::string_view::npos || !Strip(code.substr(0, space)).ends_with("set")) return {};
  return code.substr(space + 1);
}

}  // namespace

std::vector<JinjaPart> SplitJinja(std::string_view source) {
  std::vector<JinjaPart> parts;
  std::string text;
  for (size_t offset = 0; offset < source.size();) {
    const std::string_view opening = source.substr(offset, 2);
    if (opening == "{#") {
      const size_t end = source.find("#}", offset + 2);
      offset = end == std::string_view::npos ? source.size() : end + 2;
    } else if (opening == "{{" || opening == "{%") {
      parts.push_back({Kind::kText, std::exchange(text, {})});
      offset += 2;
      ReadTag(source, opening == "{{" ? "}}" : "%}", offset, parts);
    } else {
      text.push_back(source[offset++]);
    }
  }
  parts.push_back({Kind::kText, std::move(text)});
  return parts;
}

std::string AssignedLiteral(const std::vector<JinjaPart>& parts, std::string_view name) {
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].kind != Kind::kLiteral || parts[i].value.empty()) continue;
    if (parts[i - 1].kind != Kind::kCode) continue;
    if (AssignedName(parts[i - 1].value).find(name) == std::string_view::npos) continue;
    return parts[i].value;
  }
  return {};
}

}  // namespace luna::text
