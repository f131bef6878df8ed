// What students type: openings of stories for a model that continues text, questions for one that
// chats, in Korean and English.
#ifndef LUNA_CLIENT_CLASSROOM_PROMPTS_H_
#define LUNA_CLIENT_CLASSROOM_PROMPTS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace luna::classroom {

enum class Language { kKorean = 0, kEnglish = 1 };

struct Phrases {
  std::vector<std::string> openings;       // of a story
  std::vector<std::string> continuations;  // of a story that was cut short
  std::vector<std::string> questions;
  std::string passage;  // what the student with the long text pastes, again and again
};

struct Prompts {
  std::array<Phrases, 2> by_language;  // indexed by Language

  const Phrases& In(Language language) const { return by_language[static_cast<size_t>(language)]; }
};

const Prompts& BuiltInPrompts();

// One prompt a line, used for every turn in both languages; empty lines and lines that begin with
// '#' are left out. The passages stay the built-in ones.
absl::StatusOr<Prompts> ReadPrompts(const std::string& path);

// The passage as often as it takes to be about `wanted_tokens` long, at least once;
// `passage_tokens` is the length of one.
std::string LongText(std::string_view passage, uint32_t passage_tokens, uint32_t wanted_tokens);

// A name for each student, Korean ones first and every other one; a second "Emma" is "Emma 2".
std::string StudentName(int index);
Language StudentLanguage(int index);

}  // namespace luna::classroom

#endif  // LUNA_CLIENT_CLASSROOM_PROMPTS_H_
