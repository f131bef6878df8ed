#include "core/text/chat_families.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/text/turn_builder.h"
#include "core/text/utf8.h"

namespace luna::text {
namespace {

// White space as Python's str.strip() has it, which is what templates call.
bool IsPythonSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

// `text` is valid UTF-8.
std::string_view Trim(std::string_view text) {
  size_t begin = text.size();
  size_t end = 0;
  for (size_t offset = 0; offset < text.size();) {
    const size_t at = offset;
    if (IsPythonSpace(NextCodePoint(text, offset))) continue;
    if (begin == text.size()) begin = at;
    end = offset;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

// `text` without the white space behind it.
std::string_view TrimEnd(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  return trimmed.empty() ? trimmed : text.substr(0, trimmed.end() - text.begin());
}

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
  }
  return {};
}

absl::StatusOr<TokenId> FindControl(const Tokenizer& tokenizer, std::string_view marker) {
  const TokenizerData& data = tokenizer.data();
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    if (data.types[id] == TokenType::kControl && data.tokens[id] == marker) {
      return static_cast<TokenId>(id);
    }
  }
  return absl::UnimplementedError(absl::StrCat("the chat template's marker ", AbslView(marker),
                                               " is not a control token of the vocabulary"));
}

absl::Status BadMessage(size_t index, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("message ", index, ": ", AbslView(what)));
}

class Family : public ChatTemplate {
 public:
  Family(ChatFamily family, ChatFacts facts) : facts_(std::move(facts)), family_(family) {}

  ChatFamily family() const final { return family_; }
  const std::string& default_system() const final { return facts_.default_system; }
  const TurnMarkers& markers() const final { return markers_; }

  absl::StatusOr<RenderedTurn> RenderTurn(std::span<const ChatMessage> messages) const final {
    LUNA_RETURN_IF_ERROR(Check(messages));
    const bool has_system = messages.front().role == Role::kSystem;
    const std::span<const ChatMessage> turns = messages.subspan(has_system ? 1 : 0);
    RenderedTurn turn;
    TurnBuilder opening(facts_.tokenizer, TextBefore::kNothing);
    AddOpening(has_system, opening);
    LUNA_ASSIGN_OR_RETURN(turn.opening, opening.Take());
    const TextBefore before = turn.opening.empty() ? TextBefore::kNothing : TextBefore::kAddedToken;
    TurnBuilder body(facts_.tokenizer, before);
    if (has_system) AddSystem(messages.front().content, body);
    AddTurns(turns, has_system && system_begins_turn(), body);
    LUNA_ASSIGN_OR_RETURN(turn.body, body.Take());
    if (has_system) {
      TurnBuilder system(facts_.tokenizer, before);
      AddSystem(messages.front().content, system);
      LUNA_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, system.Take());
      // Not where a token reaches over the border: the system message then goes with its turn.
      const auto common = std::ranges::mismatch(tokens, turn.body);
      if (common.in1 == tokens.end()) turn.system_tokens = static_cast<int>(tokens.size());
    }
    if (system_begins_turn()) {
      TurnBuilder after_system(facts_.tokenizer, TextBefore::kText);
      AddTurns(turns, /*begun=*/true, after_system);
      LUNA_ASSIGN_OR_RETURN(turn.after_system, after_system.Take());
    }
    return turn;
  }

  absl::StatusOr<std::vector<TokenId>> RenderOpening(std::string_view system) const final {
    LUNA_RETURN_IF_ERROR(CheckUtf8(system));
    TurnBuilder opening(facts_.tokenizer, TextBefore::kNothing);
    AddOpening(/*has_system=*/true, opening);
    AddSystem(system, opening);
    return opening.Take();
  }

 protected:
  virtual bool must_alternate() const { return false; }
  // The system prompt is no turn of its own but the beginning of the first user turn.
  virtual bool system_begins_turn() const { return false; }
  virtual void AddSystem(std::string_view content, TurnBuilder& out) const = 0;
  virtual void AddOpening(bool has_system, TurnBuilder& out) const = 0;
  // User and assistant messages, then what invites the assistant to answer. `begun`: AddSystem has
  // begun the first one.
  virtual void AddTurns(std::span<const ChatMessage> messages, bool begun,
                        TurnBuilder& out) const = 0;

  std::string_view Content(const ChatMessage& message) const {
    return facts_.trims ? Trim(message.content) : std::string_view(message.content);
  }
  void AddBos(TurnBuilder& out) const {
    if (facts_.bos.has_value()) out.AddControl(*facts_.bos);
  }
  // `end`: the control token that ends an answer; `after`: the text that follows it.
  absl::Status SetMarkers(TokenId end, std::string_view after) {
    markers_.end = {end};
    LUNA_ASSIGN_OR_RETURN(markers_.after_end,
                          facts_.tokenizer->Encode(after, {.before = TextBefore::kAddedToken}));
    return absl::OkStatus();
  }

  const ChatFacts facts_;
  TurnMarkers markers_;

 private:
  absl::Status Check(std::span<const ChatMessage> messages) const {
    if (messages.empty()) return absl::InvalidArgumentError("a turn needs at least one message");
    const size_t first = messages.front().role == Role::kSystem ? 1 : 0;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (const absl::Status status = CheckUtf8(messages[i].content); !status.ok()) {
        return BadMessage(i, StdView(status.message()));
      }
      if (i < first) continue;
      const Role role = messages[i].role;
      if (role == Role::kSystem) return BadMessage(i, "a system message may only come first");
      if (must_alternate() && (role == Role::kUser) != ((i - first) % 2 == 0)) {
        return BadMessage(i, "this model's user and assistant messages must alternate, user first");
      }
    }
    if (messages.back().role != Role::kUser) {
      return BadMessage(messages.size() - 1, "the last message of a turn must be the user's");
    }
    return absl::OkStatus();
  }

  const ChatFamily family_;
};

// <|im_start|>ROLE\nCONTENT<|im_end|>\n
class ChatMl final : public Family {
 public:
  ChatMl(ChatFacts facts, TokenId start, TokenId end)
      : Family(ChatFamily::kChatMl, std::move(facts)), start_(start), end_(end) {}
  absl::Status Init() { return SetMarkers(end_, "\n"); }

 private:
  void AddMessage(std::string_view role, std::string_view content, TurnBuilder& out) const {
    out.AddControl(start_);
    out.AddText(role);
    out.AddText("\n");
    out.AddText(content);
    out.AddControl(end_);
    out.AddText("\n");
  }
  void AddSystem(std::string_view content, TurnBuilder& out) const override {
    AddMessage("system", facts_.trims ? Trim(content) : content, out);
  }
  void AddOpening(bool has_system, TurnBuilder& out) const override {
    AddBos(out);
    if (!has_system && !facts_.default_system.empty()) {
      AddMessage("system", facts_.default_system, out);
    }
  }
  void AddTurns(std::span<const ChatMessage> messages, bool /*begun*/,
                TurnBuilder& out) const override {
    for (const ChatMessage& message : messages) {
      AddMessage(RoleName(message.role), Content(message), out);
    }
    out.AddControl(start_);
    out.AddText("assistant\n");
  }

  const TokenId start_;
  const TokenId end_;
};

// <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>
class Llama3 final : public Family {
 public:
  Llama3(ChatFacts facts, TokenId start, TokenId end, TokenId eot)
      : Family(ChatFamily::kLlama3, std::move(facts)),
        start_header_(start),
        end_header_(end),
        end_of_turn_(eot) {}
  absl::Status Init() { return SetMarkers(end_of_turn_, ""); }

 private:
  void AddHeader(std::string_view role, TurnBuilder& out) const {
    out.AddControl(start_header_);
    out.AddText(role);
    out.AddControl(end_header_);
    out.AddText("\n\n");
  }
  void AddSystem(std::string_view content, TurnBuilder& out) const override {
    AddHeader("system", out);
    out.AddText(facts_.system_preamble);
    out.AddText(facts_.trims ? Trim(content) : content);
    out.AddControl(end_of_turn_);
  }
  void AddOpening(bool has_system, TurnBuilder& out) const override {
    AddBos(out);
    if (has_system || (facts_.default_system.empty() && facts_.system_preamble.empty())) return;
    AddHeader("system", out);
    out.AddText(facts_.system_preamble.empty() ? facts_.default_system : facts_.system_preamble);
    out.AddControl(end_of_turn_);
  }
  void AddTurns(std::span<const ChatMessage> messages, bool /*begun*/,
                TurnBuilder& out) const override {
    for (const ChatMessage& message : messages) {
      AddHeader(RoleName(message.role), out);
      out.AddText(Content(message));
      out.AddControl(end_of_turn_);
    }
    AddHeader("assistant", out);
  }

  const TokenId start_header_;
  const TokenId end_header_;
  const TokenId end_of_turn_;
};

// <start_of_turn>ROLE\nCONTENT<end_of_turn>\n, with "model" for the assistant; a system message is
// the beginning of the first user turn.
class Gemma final : public Family {
 public:
  Gemma(ChatFacts facts, TokenId start, TokenId end)
      : Family(ChatFamily::kGemma, std::move(facts)), start_(start), end_(end) {}
  absl::Status Init() { return SetMarkers(end_, "\n"); }

 private:
  bool must_alternate() const override { return true; }
  bool system_begins_turn() const override { return true; }
  void AddOpening(bool /*has_system*/, TurnBuilder& out) const override { AddBos(out); }
  void BeginTurn(Role role, TurnBuilder& out) const {
    out.AddControl(start_);
    out.AddText(role == Role::kUser ? "user\n" : "model\n");
  }
  void AddSystem(std::string_view content, TurnBuilder& out) const override {
    BeginTurn(Role::kUser, out);
    out.AddText(content);  // the template trims turns, not this
    out.AddText(facts_.system_separator);
  }
  void AddTurns(std::span<const ChatMessage> messages, bool begun,
                TurnBuilder& out) const override {
    for (const ChatMessage& message : messages) {
      if (!std::exchange(begun, false)) BeginTurn(message.role, out);
      out.AddText(Content(message));
      out.AddControl(end_);
      out.AddText("\n");
    }
    BeginTurn(Role::kAssistant, out);
  }

  const TokenId start_;
  const TokenId end_;
};

// <s>[INST] CONTENT [/INST] ANSWER </s>; the brackets are text. A system message stands in <<SYS>>
// brackets within the first user turn. BOS belongs to every user turn, so there is no opening.
class Llama2 final : public Family {
 public:
  Llama2(ChatFacts facts, TokenId end) : Family(ChatFamily::kLlama2, std::move(facts)), end_(end) {}
  absl::Status Init() {
    // The template puts a space between an answer and its end.
    LUNA_ASSIGN_OR_RETURN(markers_.end,
                          facts_.tokenizer->Encode(" ", {.before = TextBefore::kText}));
    markers_.end.push_back(end_);
    return absl::OkStatus();
  }

 private:
  bool must_alternate() const override { return true; }
  bool system_begins_turn() const override { return true; }
  void AddOpening(bool /*has_system*/, TurnBuilder& /*out*/) const override {}
  void BeginUserTurn(TurnBuilder& out) const {
    AddBos(out);
    out.AddText("[INST] ");
  }
  void AddSystem(std::string_view content, TurnBuilder& out) const override {
    BeginUserTurn(out);
    out.AddText(absl::StrCat("<<SYS>>\n", AbslView(content), "\n<</SYS>>"));
  }
  void AddTurns(std::span<const ChatMessage> messages, bool begun,
                TurnBuilder& out) const override {
    for (const ChatMessage& message : messages) {
      if (message.role == Role::kUser) {
        if (std::exchange(begun, false)) {
          // The template strips the system prompt and the message as one text.
          const std::string text = absl::StrCat("\n\n", message.content);
          out.AddText(facts_.trims ? TrimEnd(text) : std::string_view(text));
        } else {
          BeginUserTurn(out);
          out.AddText(Content(message));
        }
        out.AddText(" [/INST]");
      } else {
        out.AddText(" ");
        out.AddText(Content(message));
        out.AddText(" ");
        out.AddControl(end_);
      }
    }
  }

  const TokenId end_;
};

template <typename T>
absl::StatusOr<std::unique_ptr<ChatTemplate>> Initialized(std::unique_ptr<T> made) {
  LUNA_RETURN_IF_ERROR(made->Init());
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> MakeChatMl(ChatFacts facts) {
  LUNA_ASSIGN_OR_RETURN(const TokenId start, FindControl(*facts.tokenizer, "<|im_start|>"));
  LUNA_ASSIGN_OR_RETURN(const TokenId end, FindControl(*facts.tokenizer, "<|im_end|>"));
  return Initialized(std::make_unique<ChatMl>(std::move(facts), start, end));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> MakeLlama2(ChatFacts facts) {
  LUNA_ASSIGN_OR_RETURN(const TokenId end, FindControl(*facts.tokenizer, "</s>"));
  return Initialized(std::make_unique<Llama2>(std::move(facts), end));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> MakeLlama3(ChatFacts facts) {
  const Tokenizer& tokenizer = *facts.tokenizer;
  LUNA_ASSIGN_OR_RETURN(const TokenId start, FindControl(tokenizer, "<|start_header_id|>"));
  LUNA_ASSIGN_OR_RETURN(const TokenId end, FindControl(tokenizer, "<|end_header_id|>"));
  LUNA_ASSIGN_OR_RETURN(const TokenId eot, FindControl(tokenizer, "<|eot_id|>"));
  return Initialized(std::make_unique<Llama3>(std::move(facts), start, end, eot));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> MakeGemma(ChatFacts facts) {
  LUNA_ASSIGN_OR_RETURN(const TokenId start, FindControl(*facts.tokenizer, "<start_of_turn>"));
  LUNA_ASSIGN_OR_RETURN(const TokenId end, FindControl(*facts.tokenizer, "<end_of_turn>"));
  return Initialized(std::make_unique<Gemma>(std::move(facts), start, end));
}

}  // namespace luna::text
