#include "core/text/chat_template.h"

#include <utility>

#include "core/text/chat_families.h"
#include "core/text/jinja_text.h"

namespace luna::text {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What a literal or the text of the template has between `open` and `close`; the first that is not
// empty.
std::string Between(const std::vector<JinjaPart>& parts, std::string_view open,
                    std::string_view close) {
  for (const JinjaPart& part : parts) {
    if (part.kind == JinjaPart::Kind::kCode) continue;
    const size_t begin = part.value.find(open);
    if (begin == std::string::npos) continue;
    const size_t content = begin + open.size();
    const size_t end = part.value.find(close, content);
    if (end != std::string::npos && end > content) return part.value.substr(content, end - content);
  }
  return {};
}

std::string DefaultSystem(const std::vector<JinjaPart>& parts, std::string_view open,
                          std::string_view close) {
  std::string found = Between(parts, open, close);
  return found.empty() ? AssignedLiteral(parts, "system") : found;
}

// The lines with dates that Llama 3.1 and 3.2 put in front of every system message. The day is the
// template's fallback, for which a calendar is not asked: the same words every day.
std::string Llama3Preamble(const std::vector<JinjaPart>& parts) {
  constexpr std::string_view kCutting = "Cutting Knowledge Date:";
  constexpr std::string_view kToday = "Today Date: ";
  std::string cutting;
  std::string today;
  for (const JinjaPart& part : parts) {
    if (part.kind == JinjaPart::Kind::kCode) continue;
    if (cutting.empty() && part.value.starts_with(kCutting)) cutting = part.value;
    if (today.empty() && part.value.starts_with(kToday)) today = part.value;
  }
  if (cutting.empty()) return {};
  if (today.size() > kToday.size()) return cutting + today;  // the date is part of the literal
  const std::string date = AssignedLiteral(parts, "date_string");
  return cutting + std::string(kToday) + (date.empty() ? "26 Jul 2024" : date) + "\n\n";
}

// Gemma: what the template puts behind a system message, messages[0]['content'] + '...'.
std::string SystemSeparator(const std::vector<JinjaPart>& parts) {
  for (size_t i = 3; i < parts.size(); ++i) {
    if (parts[i].kind == JinjaPart::Kind::kLiteral && parts[i - 2].value == "content" &&
        Contains(parts[i - 1].value, "+") && Contains(parts[i - 3].value, "messages[0][")) {
      return parts[i].value;
    }
  }
  return "\n\n";
}

bool Trims(const std::vector<JinjaPart>& parts) {
  for (const JinjaPart& part : parts) {
    if (part.kind != JinjaPart::Kind::kCode) continue;
    if (Contains(part.value, "| trim") || Contains(part.value, "|trim") ||
        Contains(part.value, ".strip()")) {
      return true;
    }
  }
  return false;
}

bool WritesBos(const std::vector<JinjaPart>& parts, const TokenizerData& data) {
  const std::string_view spelling = data.tokens[*data.bos];
  for (const JinjaPart& part : parts) {
    const bool is_code = part.kind == JinjaPart::Kind::kCode;
    if (is_code ? Contains(part.value, "bos_token") : Contains(part.value, spelling)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Create(const Tokenizer* tokenizer) {
  const TokenizerData& data = tokenizer->data();
  const std::string& source = data.chat_template;
  if (source.empty()) return nullptr;
  const std::vector<JinjaPart> parts = SplitJinja(source);
  ChatFacts facts;
  facts.tokenizer = tokenizer;
  facts.trims = Trims(parts);
  // ChatML's first token is also BOS in some files; a template that opens every message by it does
  // not write it once more.
  if (data.bos.has_value() && data.tokens[*data.bos] != "<|im_start|>" && WritesBos(parts, data)) {
    facts.bos = data.bos;
  }
  if (Contains(source, "<|im_start|>")) {
    facts.default_system = DefaultSystem(parts, "<|im_start|>system\n", "<|im_end|>");
    return MakeChatMl(std::move(facts));
  }
  if (Contains(source, "<|start_header_id|>")) {
    facts.system_preamble = Llama3Preamble(parts);
    facts.default_system = facts.system_preamble;
    if (facts.default_system.empty()) {
      facts.default_system =
          DefaultSystem(parts, "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>");
    }
    return MakeLlama3(std::move(facts));
  }
  if (Contains(source, "<start_of_turn>")) {
    facts.system_separator = SystemSeparator(parts);
    return MakeGemma(std::move(facts));
  }
  if (Contains(source, "[INST]") && Contains(source, "<<SYS>>"))
    return MakeLlama2(std::move(facts));
  return absl::UnimplementedError(
      "the chat template is of an unknown family; supported are ChatML (<|im_start|>), Llama 2 "
      "([INST] "
      "with <<SYS>>), Llama 3 (<|start_header_id|>) and Gemma (<start_of_turn>)");
}

}  // namespace luna::text
