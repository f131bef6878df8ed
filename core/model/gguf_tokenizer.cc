#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/gguf_model.h"

namespace luna::model {
namespace {

using text::TokenizerData;
using text::TokenizerKind;
using text::TokenType;

const GgufArray* FindArray(GgufFields& fields, std::string_view key) {
  const GgufValue* value = fields.Find(key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr) fields.Invalid(key, "it must be an array");
  return array;
}

void ReadTokens(GgufFields& fields, TokenizerData& data) {
  const GgufArray* array = FindArray(fields, "tokens");
  auto tokens = array == nullptr ? std::nullopt : GgufStrings(*array);
  if (!tokens || tokens->empty()) return fields.Invalid("tokens", "it must be an array of strings");
  data.tokens = *std::move(tokens);
}

// The file counts types from 1, in the order of TokenType.
void ReadTypes(GgufFields& fields, TokenizerData& data) {
  data.types.assign(data.tokens.size(), TokenType::kNormal);
  const GgufArray* array = FindArray(fields, "token_type");
  if (array == nullptr) return;
  const auto types = GgufInts(*array);
  if (!types || types->size() != data.tokens.size()) {
    return fields.Invalid("token_type",
                          absl::StrCat("it must hold ", data.tokens.size(), " integers"));
  }
  for (size_t i = 0; i < types->size(); ++i) {
    const int64_t type = (*types)[i];
    if (type < 1 || type > 6) {
      return fields.Invalid("token_type",
                            absl::StrCat("token ", i, " has type ", type, ", not one from 1 to 6"));
    }
    data.types[i] = static_cast<TokenType>(type - 1);
  }
}

void ReadScores(GgufFields& fields, TokenizerData& data) {
  const GgufArray* array = FindArray(fields, "scores");
  auto scores = array == nullptr ? std::nullopt : GgufFloats(*array);
  if (!scores || scores->size() != data.tokens.size()) {
    return fields.Invalid("scores", absl::StrCat("it must hold ", data.tokens.size(), " numbers"));
  }
  data.scores = *std::move(scores);
}

// "left right"; a space inside `left` can only be its first character.
void ReadMerges(GgufFields& fields, TokenizerData& data) {
  const GgufArray* array = FindArray(fields, "merges");
  auto merges = array == nullptr ? std::nullopt : GgufStrings(*array);
  if (!merges) return fields.Invalid("merges", "it must be an array of strings");
  data.merges.reserve(merges->size());
  for (const std::string& merge : *merges) {
    const size_t space = merge.find(' ', 1);
    if (merge.empty() || space == std::string::npos) {
      return fields.Invalid("merges", absl::StrCat("\"", merge, "\" is not a pair"));
    }
    data.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
}

std::optional<TokenId> ReadId(GgufFields& fields, std::string_view key, const TokenizerData& data) {
  const GgufValue* value = fields.Find(key);
  // Some writers say "none" with the largest 32-bit number.
  const auto* number = value == nullptr ? nullptr : std::get_if<uint64_t>(value);
  if (value == nullptr || (number != nullptr && *number == 0xffffffff)) return std::nullopt;
  const int id = fields.Int(key, 0);
  if (id >= 0 && static_cast<size_t>(id) < data.tokens.size()) return id;
  fields.Invalid(key, absl::StrCat("the vocabulary has ", data.tokens.size(), " tokens"));
  return std::nullopt;
}

// Families whose splitting several names stand for.
std::string PreTokenizerName(const std::string& name, Architecture architecture) {
  if (name == "llama3" || name == "llama-v3") return "llama-bpe";
  if (name.empty() && architecture == Architecture::kGpt2) return "gpt-2";
  if (name.empty() && architecture == Architecture::kQwen2) return "qwen2";
  return name.empty() ? "default" : name;
}

void ReadKind(GgufFields& fields, Architecture architecture, TokenizerData& data) {
  const std::string model = fields.String("model", "");
  if (model == "gpt2") {
    data.kind = TokenizerKind::kByteLevelBpe;
    data.pre_tokenizer = PreTokenizerName(fields.String("pre", ""), architecture);
    data.normalize_nfc = data.pre_tokenizer == "qwen2";
    data.ignore_merges = data.pre_tokenizer == "llama-bpe";
    ReadMerges(fields, data);
  } else if (model == "llama") {
    data.kind = TokenizerKind::kSentencePieceBpe;
    ReadScores(fields, data);
  } else {
    fields.Unsupported("model", "gpt2 and llama are");
  }
}

}  // namespace

absl::StatusOr<TokenizerData> ReadGgufTokenizer(const GgufFile& file, Architecture architecture) {
  GgufFields fields(file, "tokenizer.ggml.");
  TokenizerData data;
  ReadTokens(fields, data);
  ReadTypes(fields, data);
  ReadKind(fields, architecture, data);
  const bool pieces = data.kind == TokenizerKind::kSentencePieceBpe;
  data.add_space_prefix = fields.Bool("add_space_prefix", pieces);
  data.remove_extra_whitespaces = fields.Bool("remove_extra_whitespaces", false);
  data.add_bos = fields.Bool("add_bos_token", pieces || data.pre_tokenizer == "llama-bpe");
  data.add_eos = fields.Bool("add_eos_token", false);
  data.bos = ReadId(fields, "bos_token_id", data);
  data.unknown = ReadId(fields, "unknown_token_id", data);
  for (const std::string_view key : {"eos_token_id", "eot_token_id"}) {
    const std::optional<TokenId> id = ReadId(fields, key, data);
    if (id) data.end_ids.push_back(*id);
  }
  if (data.add_bos && !data.bos) fields.Invalid("bos_token_id", "add_bos_token needs it");
  GgufFields tokenizer(file, "tokenizer.");
  data.chat_template = tokenizer.String("chat_template", "");
  LUNA_RETURN_IF_ERROR(fields.status());
  LUNA_RETURN_IF_ERROR(tokenizer.status());
  return data;
}

}  // namespace luna::model
