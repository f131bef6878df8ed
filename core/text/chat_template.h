// The tokens that open and close a turn, for the families we know. Never a Jinja engine: the family
// is recognised by the control-token markers in the file's template, its default system prompt is
// taken from the template's text, and user text is encoded as plain text, so that it can never
// become a control token.
#ifndef LUNA_CORE_TEXT_CHAT_TEMPLATE_H_
#define LUNA_CORE_TEXT_CHAT_TEMPLATE_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/text/tokenizer.h"

namespace luna::text {

enum class ChatFamily { kChatMl, kLlama2, kLlama3, kGemma };

enum class Role { kSystem, kUser, kAssistant };

struct ChatMessage {
  Role role = Role::kUser;
  std::string content;
};

// One rendered turn. A conversation's first turn is `opening` + `body`; a later turn is
// TurnMarkers' closing of the last answer + `body`.
struct RenderedTurn {
  std::vector<TokenId> opening;  // BOS and the default system prompt, unless `body` brings its own
  std::vector<TokenId> body;     // the messages, then what invites the assistant to answer
  // At the front of `body`: its own system message, with what it has begun of the user's turn.
  int system_tokens = 0;
  // Of a family that writes the system prompt into the first user turn (Llama 2, Gemma): the
  // messages without the system message, right behind one that has begun the user's turn. Empty:
  // `body` stands behind any opening.
  std::vector<TokenId> after_system;
};

// What stands between an answer and the next turn's body.
struct TurnMarkers {
  // What ends an answer that did not end itself (LENGTH, stop string); the end token is its last.
  std::vector<TokenId> end;
  std::vector<TokenId> after_end;  // follows the end token, sampled or added (ChatML: a newline)
};

// Const after construction and thread-safe. Borrows the tokenizer.
class ChatTemplate {
 public:
  // Null if `tokenizer`'s data has no template. UNIMPLEMENTED for a template of an unknown family:
  // the caller decides whether the model is then served as plain text.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Create(const Tokenizer* tokenizer);
  virtual ~ChatTemplate() = default;

  virtual ChatFamily family() const = 0;
  // The template's own default system prompt; empty if it has none.
  virtual const std::string& default_system() const = 0;

  // Renders the messages of one turn. At least one message; a system message only first;
  // the last one from the user. INVALID_ARGUMENT names the message by index otherwise.
  // Equal to transformers' apply_chat_template(add_generation_prompt=True) for opening + body.
  virtual absl::StatusOr<RenderedTurn> RenderTurn(std::span<const ChatMessage> messages) const = 0;

  // The opening of a conversation whose system prompt is `system` instead of the default one: what
  // stands in front of the first turn, its `after_system` if it has one, when its messages have no
  // system message.
  virtual absl::StatusOr<std::vector<TokenId>> RenderOpening(std::string_view system) const = 0;

  virtual const TurnMarkers& markers() const = 0;
};

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_CHAT_TEMPLATE_H_
