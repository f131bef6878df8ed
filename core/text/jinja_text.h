// The words in a Jinja template: not an engine, only what it would print as it stands.
#ifndef LUNA_CORE_TEXT_JINJA_TEXT_H_
#define LUNA_CORE_TEXT_JINJA_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace luna::text {

struct JinjaPart {
  enum class Kind {
    kText,     // between tags; there is one, maybe empty, between any two tags
    kLiteral,  // a string literal within a tag, unescaped; literals joined by + or ~ are one
    kCode,     // the rest of a tag, between its literals
  };
  Kind kind;
  std::string value;
};

// Comments are left out. Never fails: what is not closed extends to the end.
std::vector<JinjaPart> SplitJinja(std::string_view source);

// The first non-empty literal that {% set NAME = ... %} gives to a name that contains `name`.
std::string AssignedLiteral(const std::vector<JinjaPart>& parts, std::string_view name);

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_JINJA_TEXT_H_
