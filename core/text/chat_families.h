// The four families of chat templates, each with what was read from the file's own template.
#ifndef LUNA_CORE_TEXT_CHAT_FAMILIES_H_
#define LUNA_CORE_TEXT_CHAT_FAMILIES_H_

#include <memory>
#include <string>

#include "core/text/chat_template.h"

namespace luna::text {

struct ChatFacts {
  const Tokenizer* tokenizer = nullptr;
  std::optional<TokenId> bos;  // if the template writes it
  std::string default_system;
  // Llama 3.1: what every system message begins with, the default one (which is nothing else) too.
  std::string system_preamble;
  std::string system_separator;  // Gemma: between the system message and the user's
  bool trims = false;            // the template strips white space around contents
};

// UNIMPLEMENTED if the vocabulary has no control token for one of the family's markers.
absl::StatusOr<std::unique_ptr<ChatTemplate>> MakeChatMl(ChatFacts facts);
absl::StatusOr<std::unique_ptr<ChatTemplate>> MakeLlama2(ChatFacts facts);
absl::StatusOr<std::unique_ptr<ChatTemplate>> MakeLlama3(ChatFacts facts);
absl::StatusOr<std::unique_ptr<ChatTemplate>> MakeGemma(ChatFacts facts);

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_CHAT_FAMILIES_H_
