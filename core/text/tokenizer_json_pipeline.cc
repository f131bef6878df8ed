#include "core/text/tokenizer_json_pipeline.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/text/json_object.h"
#include "core/text/pre_tokenizer.h"

namespace luna::text {
namespace {

using nlohmann::json;

constexpr std::string_view kSpace = "\u2581";
// A file nests sequences once; more is not a tokenizer.
constexpr int kMaxNesting = 4;

template <typename... Parts>
absl::Status Unsupported(const Parts&... parts) {
  return absl::UnimplementedError(absl::StrCat("tokenizer.json: ", parts...));
}

// Appends the steps of `part`, those of nested sequences one after the other.
absl::Status Flatten(const char* name, const char* list_key, const json& part, int depth,
                     std::vector<const json*>& steps) {
  if (part.is_null()) return absl::OkStatus();
  if (!part.is_object() || StringMember(part, "type").empty()) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: ", name, " has no type"));
  }
  if (StringMember(part, "type") != "Sequence") {
    steps.push_back(&part);
    return absl::OkStatus();
  }
  const auto list = part.find(list_key);
  if (list == part.end() || !list->is_array() || depth == kMaxNesting) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: ", name,
                                                   " is a sequence without ", list_key,
                                                   ", or nests over ", kMaxNesting, " deep"));
  }
  for (const json& step : *list) {
    LUNA_RETURN_IF_ERROR(Flatten(name, list_key, step, depth + 1, steps));
  }
  return absl::OkStatus();
}

std::string Pattern(const json& step, const char* kind) {
  const auto pattern = step.find("pattern");
  return pattern == step.end() ? std::string() : StringMember(*pattern, kind);
}

struct NormalizerFacts {
  bool nfc = false;
  bool prepends_space = false;
  bool escapes_spaces = false;
};

absl::StatusOr<NormalizerFacts> ReadNormalizer(const json& normalizer) {
  std::vector<const json*> steps;
  LUNA_RETURN_IF_ERROR(Flatten("normalizer", "normalizers", normalizer, 0, steps));
  NormalizerFacts facts;
  for (const json* step : steps) {
    const std::string type = StringMember(*step, "type");
    if (type == "NFC") {
      facts.nfc = true;
    } else if (type == "Prepend" && StringMember(*step, "prepend") == kSpace) {
      facts.prepends_space = true;
    } else if (type == "Replace" && Pattern(*step, "String") == " " &&
               StringMember(*step, "content") == kSpace) {
      facts.escapes_spaces = true;
    } else {
      return Unsupported("normalizer ", type,
                         " is not supported; NFC, and Prepend or Replace with U+2581, are");
    }
  }
  return facts;
}

absl::Status ReadMetaspace(const json& step, TokenizerData& data) {
  if (StringMember(step, "replacement") != kSpace || BoolMember(step, "split", false)) {
    return Unsupported(
        "pre-tokenizer Metaspace is supported with replacement U+2581 and split false");
  }
  const std::string scheme = StringMember(step, "prepend_scheme");
  data.add_space_prefix =
      scheme.empty() ? BoolMember(step, "add_prefix_space", true) : scheme != "never";
  data.space_prefix_rule =
      scheme == "first" ? SpacePrefixRule::kMetaspaceFirst : SpacePrefixRule::kMetaspaceAlways;
  return absl::OkStatus();
}

absl::Status ReadSentencePiece(const std::vector<const json*>& steps, const NormalizerFacts& facts,
                               TokenizerData& data) {
  data.kind = TokenizerKind::kSentencePieceBpe;
  if (facts.nfc) return Unsupported("normalizer NFC of a SentencePiece model is not supported");
  data.add_space_prefix = facts.prepends_space;
  bool escapes_spaces = facts.escapes_spaces;
  for (const json* step : steps) {
    const std::string type = StringMember(*step, "type");
    if (type == "Metaspace") {
      LUNA_RETURN_IF_ERROR(ReadMetaspace(*step, data));
      escapes_spaces = true;
    } else if (type == "Split" && Pattern(*step, "String") == " " && facts.escapes_spaces) {
      // Gemma's file splits at spaces, of which the normalizer has left none.
    } else {
      return Unsupported("pre-tokenizer ", type, " of a SentencePiece model is not supported");
    }
  }
  if (!escapes_spaces)
    return Unsupported("a SentencePiece model that keeps spaces is not supported");
  return absl::OkStatus();
}

// The name of the pre-tokenizer that the steps in front of ByteLevel amount to.
absl::StatusOr<std::string> NameSteps(const std::vector<const json*>& steps,
                                      bool byte_level_splits) {
  const json* first = steps.size() == 2 ? steps[0] : nullptr;
  if (steps.size() == 1 && byte_level_splits) return "gpt-2";
  if (first != nullptr && StringMember(*first, "type") == "Digits" && byte_level_splits) {
    if (BoolMember(*first, "individual_digits", false)) return "smollm";
    return Unsupported("pre-tokenizer Digits is supported with individual_digits only");
  }
  if (first != nullptr && StringMember(*first, "type") == "Split" && !byte_level_splits) {
    const std::string pattern = Pattern(*first, "Regex");
    const std::string_view name = PreTokenizerForPattern(pattern);
    if (name.empty()) {
      return Unsupported("the splitting pattern ", pattern,
                         " is not supported; those of GPT-2, Llama 3 and Qwen2 are");
    }
    if (StringMember(*first, "behavior") != "Isolated" || BoolMember(*first, "invert", false)) {
      return Unsupported("pre-tokenizer Split is supported with behavior Isolated, not inverted");
    }
    return std::string(name);
  }
  std::string types;
  for (const json* step : steps)
    absl::StrAppend(&types, types.empty() ? "" : " + ", StringMember(*step, "type"));
  return Unsupported("pre-tokenizer ", types, " is not supported; ByteLevel, Digits + ByteLevel ",
                     "and Split + ByteLevel (use_regex false) are");
}

absl::Status ReadByteLevel(const std::vector<const json*>& steps, const NormalizerFacts& facts,
                           TokenizerData& data) {
  data.kind = TokenizerKind::kByteLevelBpe;
  data.normalize_nfc = facts.nfc;
  if (steps.empty() || StringMember(*steps.back(), "type") != "ByteLevel") {
    return Unsupported("a BPE model without pre-tokenizer ByteLevel is not supported");
  }
  const json& byte_level = *steps.back();
  data.add_space_prefix = BoolMember(byte_level, "add_prefix_space", true);
  LUNA_ASSIGN_OR_RETURN(data.pre_tokenizer,
                        NameSteps(steps, BoolMember(byte_level, "use_regex", true)));
  if (data.add_space_prefix && data.pre_tokenizer != "gpt-2") {
    return Unsupported("add_prefix_space is supported with the pattern of GPT-2 only");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadNormalizerAndPreTokenizer(const json& normalizer, const json& pre_tokenizer,
                                           bool byte_fallback, TokenizerData& data) {
  LUNA_ASSIGN_OR_RETURN(const NormalizerFacts facts, ReadNormalizer(normalizer));
  std::vector<const json*> steps;
  LUNA_RETURN_IF_ERROR(Flatten("pre_tokenizer", "pretokenizers", pre_tokenizer, 0, steps));
  bool is_sentencepiece = byte_fallback || facts.prepends_space || facts.escapes_spaces;
  for (const json* step : steps) {
    is_sentencepiece = is_sentencepiece || StringMember(*step, "type") == "Metaspace";
  }
  return is_sentencepiece ? ReadSentencePiece(steps, facts, data)
                          : ReadByteLevel(steps, facts, data);
}

absl::StatusOr<AddedAround> ReadPostProcessor(const json& post_processor) {
  std::vector<const json*> steps;
  LUNA_RETURN_IF_ERROR(Flatten("post_processor", "processors", post_processor, 0, steps));
  AddedAround around;
  for (const json* step : steps) {
    const std::string type = StringMember(*step, "type");
    if (type == "ByteLevel") continue;  // offsets only
    const auto single = step->find("single");
    if (type != "TemplateProcessing" || single == step->end() || !single->is_array()) {
      return Unsupported("post-processor ", type, " is not supported; TemplateProcessing is");
    }
    bool after_text = false;
    for (const json& piece : *single) {
      if (piece.is_object() && piece.contains("Sequence")) {
        after_text = true;
        continue;
      }
      const auto special = piece.is_object() ? piece.find("SpecialToken") : piece.end();
      std::string spelling = piece.is_object() && special != piece.end()
                                 ? StringMember(*special, "id")
                                 : std::string();
      std::string& side = after_text ? around.after : around.before;
      if (spelling.empty() || !side.empty()) {
        return Unsupported("post-processor TemplateProcessing is supported with at most one token ",
                           "before the text and one after it");
      }
      side = std::move(spelling);
    }
  }
  return around;
}

}  // namespace luna::text
