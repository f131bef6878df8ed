#include "core/text/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/text/json_object.h"
#include "core/text/tokenizer_json_pipeline.h"

namespace luna::text {
namespace {

using nlohmann::json;

// Tokens a file may number. Unused numbers cost memory, so a hostile one must not be large.
constexpr int64_t kMaxTokens = int64_t{1} << 21;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: ", parts...));
}

template <typename... Parts>
absl::Status Unsupported(const Parts&... parts) {
  return absl::UnimplementedError(absl::StrCat("tokenizer.json: ", parts...));
}

class Parser {
 public:
  absl::StatusOr<TokenizerData> Parse(const json& root);

 private:
  absl::Status ReadModel(const json& model);
  absl::Status ReadVocabulary(const json& vocab);
  absl::Status ReadMerges(const json& merges);
  absl::Status ReadAddedTokens(const json& added_tokens);
  absl::Status ReadAddedToken(size_t index, const json& entry);
  absl::Status Place(const std::string& spelling, const json& id, TokenType type);
  absl::Status ReadPipeline(const json& root);
  absl::Status ReadUnknown(const json& model);
  void MarkByteTokens();
  absl::StatusOr<TokenId> IdOf(std::string_view role, const std::string& spelling) const;

  TokenizerData data_;
  std::vector<bool> placed_;  // [vocab_size]
  absl::flat_hash_map<std::string, TokenId> ids_;
};

absl::StatusOr<TokenizerData> Parser::Parse(const json& root) {
  const json* model = FindMember(root, "model");
  if (model == nullptr || !model->is_object()) return Invalid("\"model\" is missing or no object");
  LUNA_RETURN_IF_ERROR(ReadModel(*model));
  if (const json* added = FindMember(root, "added_tokens")) {
    LUNA_RETURN_IF_ERROR(ReadAddedTokens(*added));
  }
  LUNA_RETURN_IF_ERROR(ReadPipeline(root));
  LUNA_RETURN_IF_ERROR(ReadUnknown(*model));
  if (BoolMember(*model, "byte_fallback", false)) MarkByteTokens();
  return std::move(data_);
}

absl::Status Parser::ReadModel(const json& model) {
  const std::string type = StringMember(model, "type");
  // The oldest files of GPT-2 name no type.
  if (type != "BPE" && !(type.empty() && FindMember(model, "merges") != nullptr)) {
    return Unsupported("model type \"", type, "\" is not supported; BPE is");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string value = StringMember(model, affix);
    if (!value.empty()) return Unsupported("model.", affix, " \"", value, "\" is not supported");
  }
  data_.ignore_merges = BoolMember(model, "ignore_merges", false);
  const json* vocab = FindMember(model, "vocab");
  if (vocab == nullptr || !vocab->is_object())
    return Invalid("model.vocab is missing or no object");
  LUNA_RETURN_IF_ERROR(ReadVocabulary(*vocab));
  const json* merges = FindMember(model, "merges");
  if (merges == nullptr || !merges->is_array())
    return Invalid("model.merges is missing or no array");
  return ReadMerges(*merges);
}

absl::Status Parser::ReadVocabulary(const json& vocab) {
  ids_.reserve(vocab.size());
  for (const auto& [spelling, id] : vocab.items()) {
    LUNA_RETURN_IF_ERROR(Place(spelling, id, TokenType::kNormal));
  }
  return absl::OkStatus();
}

absl::Status Parser::Place(const std::string& spelling, const json& id, TokenType type) {
  if (!id.is_number_integer()) {
    return Invalid("the id of token \"", spelling, "\" is ", id.type_name(), ", not an integer");
  }
  // A number over 2^63 turns negative here.
  const auto value = id.get<int64_t>();
  if (value < 0 || value >= kMaxTokens) {
    return Invalid("token \"", spelling, "\" has id ", id.dump(), "; 0 to ", kMaxTokens - 1,
                   " are allowed");
  }
  const auto place = static_cast<size_t>(value);
  if (place >= data_.tokens.size()) {
    data_.tokens.resize(place + 1);
    data_.types.resize(place + 1, TokenType::kUnused);
    placed_.resize(place + 1);
  }
  if (placed_[place] && data_.tokens[place] != spelling) {
    return Invalid("tokens \"", data_.tokens[place], "\" and \"", spelling, "\" have the same id ",
                   value);
  }
  placed_[place] = true;
  data_.tokens[place] = spelling;
  data_.types[place] = type;
  ids_.emplace(spelling, static_cast<TokenId>(value));
  return absl::OkStatus();
}

absl::Status Parser::ReadMerges(const json& merges) {
  data_.merges.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const json& merge = merges[rank];
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      data_.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const std::string text = merge.is_string() ? merge.get<std::string>() : std::string();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return Invalid("merge ", rank, " is neither \"left right\" nor a pair of strings");
    }
    data_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadAddedTokens(const json& added_tokens) {
  if (!added_tokens.is_array()) return Invalid("\"added_tokens\" is no array");
  for (size_t i = 0; i < added_tokens.size(); ++i) {
    LUNA_RETURN_IF_ERROR(ReadAddedToken(i, added_tokens[i]));
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadAddedToken(size_t index, const json& entry) {
  const json* content = entry.is_object() ? FindMember(entry, "content") : nullptr;
  const json* id = entry.is_object() ? FindMember(entry, "id") : nullptr;
  if (content == nullptr || !content->is_string() || id == nullptr) {
    return Invalid("added token ", index, " has no content or no id");
  }
  const auto spelling = content->get<std::string>();
  const bool special = BoolMember(entry, "special", false);
  for (const char* rule : {"single_word", "lstrip", "rstrip"}) {
    // Control tokens are never looked for in a user's text, where these rules would matter.
    if (!special && BoolMember(entry, rule, false)) {
      return Unsupported("added token \"", spelling, "\" has ", rule, ", which is not supported");
    }
  }
  return Place(spelling, *id, special ? TokenType::kControl : TokenType::kUserDefined);
}

absl::Status Parser::ReadPipeline(const json& root) {
  const json none;
  const auto part = [&](const char* key) -> const json& {
    const json* found = FindMember(root, key);
    return found != nullptr ? *found : none;
  };
  const json* model = FindMember(root, "model");
  const bool byte_fallback = BoolMember(*model, "byte_fallback", false);
  LUNA_RETURN_IF_ERROR(ReadNormalizerAndPreTokenizer(part("normalizer"), part("pre_tokenizer"),
                                                     byte_fallback, data_));
  LUNA_ASSIGN_OR_RETURN(const AddedAround around, ReadPostProcessor(part("post_processor")));
  if (!around.before.empty()) {
    LUNA_ASSIGN_OR_RETURN(data_.bos, IdOf("post_processor", around.before));
    data_.add_bos = true;
  }
  if (!around.after.empty()) {
    LUNA_ASSIGN_OR_RETURN(const TokenId eos, IdOf("post_processor", around.after));
    data_.end_ids.push_back(eos);
    data_.add_eos = true;
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadUnknown(const json& model) {
  const std::string spelling = StringMember(model, "unk_token");
  if (spelling.empty()) return absl::OkStatus();
  LUNA_ASSIGN_OR_RETURN(const TokenId id, IdOf("model.unk_token", spelling));
  data_.unknown = id;
  data_.types[id] = TokenType::kUnknown;
  return absl::OkStatus();
}

void Parser::MarkByteTokens() {
  for (size_t id = 0; id < data_.tokens.size(); ++id) {
    const std::string& token = data_.tokens[id];
    const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
    if (data_.types[id] == TokenType::kNormal && token.size() == 6 && token.starts_with("<0x") &&
        is_digit(token[3]) && is_digit(token[4]) && token[5] == '>') {
      data_.types[id] = TokenType::kByte;
    }
  }
}

absl::StatusOr<TokenId> Parser::IdOf(std::string_view role, const std::string& spelling) const {
  const auto found = ids_.find(spelling);
  if (found != ids_.end()) return found->second;
  return Invalid(AbslView(role), " names \"", spelling, "\", which is not in the vocabulary");
}

// The spelling of a token in tokenizer_config.json: a string, or an object with its content.
std::string ConfigToken(const json& config, const char* key) {
  const json* value = FindMember(config, key);
  if (value != nullptr && value->is_object()) return StringMember(*value, "content");
  return StringMember(config, key);
}

std::optional<TokenId> FindToken(const TokenizerData& data, const std::string& spelling) {
  if (spelling.empty()) return std::nullopt;
  const auto found = std::find(data.tokens.begin(), data.tokens.end(), spelling);
  if (found == data.tokens.end()) return std::nullopt;
  return static_cast<TokenId>(found - data.tokens.begin());
}

std::string ConfigTemplate(const json& config) {
  const json* value = FindMember(config, "chat_template");
  if (value == nullptr || !value->is_array()) return StringMember(config, "chat_template");
  std::string chosen;
  for (const json& entry : *value) {
    if (!entry.is_object()) continue;
    if (chosen.empty() || StringMember(entry, "name") == "default")
      chosen = StringMember(entry, "template");
  }
  return chosen;
}

}  // namespace

absl::StatusOr<TokenizerData> ParseTokenizerJson(std::string_view text) {
  LUNA_ASSIGN_OR_RETURN(const json root, ParseJsonObject(text, "tokenizer.json"));
  return Parser().Parse(root);
}

absl::Status ApplyTokenizerConfigJson(std::string_view text, TokenizerData& data) {
  LUNA_ASSIGN_OR_RETURN(const json config, ParseJsonObject(text, "tokenizer_config.json"));
  if (const auto bos = FindToken(data, ConfigToken(config, "bos_token"))) data.bos = bos;
  if (const auto unknown = FindToken(data, ConfigToken(config, "unk_token"))) {
    if (!data.unknown.has_value()) data.unknown = unknown;
  }
  if (const auto eos = FindToken(data, ConfigToken(config, "eos_token"))) {
    std::erase(data.end_ids, *eos);
    data.end_ids.insert(data.end_ids.begin(), *eos);
  }
  data.add_bos = BoolMember(config, "add_bos_token", data.add_bos) && data.bos.has_value();
  data.add_eos = BoolMember(config, "add_eos_token", data.add_eos) && !data.end_ids.empty();
  if (std::string chosen = ConfigTemplate(config); !chosen.empty()) {
    data.chat_template = std::move(chosen);
  }
  return absl::OkStatus();
}

}  // namespace luna::text
