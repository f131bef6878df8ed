#include "core/text/tokenizer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/text/byte_level_bpe.h"
#include "core/text/sentencepiece_bpe.h"
#include "core/text/utf8.h"

namespace luna::text {
namespace {

// Control tokens that end an answer in the families we serve. A file names one of them; models also
// use the others, and each must end the answer.
constexpr std::string_view kEndSpellings[] = {
    "<|im_end|>", "<|eot_id|>",    "<|end_of_text|>", "<|endoftext|>",
    "<|eom_id|>", "<end_of_turn>", "<eos>",           "</s>",
};

// What opens and closes turns. Some files call these user-defined, which a user's text could spell.
constexpr std::string_view kTurnMarkers[] = {
    "<|im_start|>", "<|im_end|>",      "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>",   "<start_of_turn>", "<end_of_turn>",
};

absl::Status CheckId(std::string_view name, TokenId id, size_t vocab_size) {
  if (id >= 0 && static_cast<size_t>(id) < vocab_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the tokenizer's ", AbslView(name), " token is ",
                                                 id, "; the vocabulary has ", vocab_size));
}

absl::Status CheckTokens(const TokenizerData& data) {
  const size_t vocab_size = data.tokens.size();
  constexpr size_t kMaxVocab = size_t{1} << 24;
  if (vocab_size == 0 || vocab_size > kMaxVocab) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer has ", vocab_size,
                                                   " tokens; 1 to ", kMaxVocab, " are allowed"));
  }
  if (data.types.size() != vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer has ", vocab_size, " tokens but ",
                                                   data.types.size(), " token types"));
  }
  for (size_t id = 0; id < vocab_size; ++id) {
    const std::string& token = data.tokens[id];
    if (token.size() > kMaxTokenBytes) {
      return absl::InvalidArgumentError(absl::StrCat("token ", id, " is spelled by ", token.size(),
                                                     " bytes; the limit is ", kMaxTokenBytes));
    }
    if (ValidUtf8Prefix(token) != token.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the spelling of token ", id, " is not valid UTF-8"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckScores(const TokenizerData& data) {
  if (data.scores.empty()) return absl::OkStatus();
  if (data.scores.size() != data.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer has ", data.tokens.size(),
                                                   " tokens but ", data.scores.size(), " scores"));
  }
  for (size_t id = 0; id < data.scores.size(); ++id) {
    if (std::isnan(data.scores[id])) {
      return absl::InvalidArgumentError(
          absl::StrCat("the score of token ", id, " is not a number"));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const TokenizerData& data) {
  LUNA_RETURN_IF_ERROR(CheckTokens(data));
  LUNA_RETURN_IF_ERROR(CheckScores(data));
  const size_t vocab_size = data.tokens.size();
  if (data.bos.has_value()) LUNA_RETURN_IF_ERROR(CheckId("BOS", *data.bos, vocab_size));
  if (data.unknown.has_value()) LUNA_RETURN_IF_ERROR(CheckId("unknown", *data.unknown, vocab_size));
  for (const TokenId id : data.end_ids) LUNA_RETURN_IF_ERROR(CheckId("end", id, vocab_size));
  if (data.add_bos && !data.bos.has_value()) {
    return absl::InvalidArgumentError("the tokenizer adds BOS but names no BOS token");
  }
  if (data.add_eos && data.end_ids.empty()) {
    return absl::InvalidArgumentError("the tokenizer adds EOS but names no EOS token");
  }
  return absl::OkStatus();
}

void MakeTurnMarkersControl(TokenizerData& data) {
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    if (data.types[id] != TokenType::kUserDefined) continue;
    for (const std::string_view marker : kTurnMarkers) {
      if (data.tokens[id] == marker) data.types[id] = TokenType::kControl;
    }
  }
}

void AddKnownEndTokens(TokenizerData& data) {
  for (const std::string_view spelling : kEndSpellings) {
    for (size_t id = 0; id < data.tokens.size(); ++id) {
      if (data.types[id] != TokenType::kControl || data.tokens[id] != spelling) continue;
      const auto end = static_cast<TokenId>(id);
      if (std::find(data.end_ids.begin(), data.end_ids.end(), end) == data.end_ids.end()) {
        data.end_ids.push_back(end);
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(TokenizerData data) {
  LUNA_RETURN_IF_ERROR(Check(data));
  MakeTurnMarkersControl(data);
  AddKnownEndTokens(data);
  if (data.kind == TokenizerKind::kSentencePieceBpe)
    return SentencePieceBpe::Create(std::move(data));
  return ByteLevelBpe::Create(std::move(data));
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool show_special) const {
  const bool drops_space = data_.kind == TokenizerKind::kSentencePieceBpe && data_.add_space_prefix;
  bool at_start = true;
  std::string text;
  Utf8Repairer repairer;
  for (const TokenId id : ids) {
    std::string_view bytes = TokenBytes(id, show_special);
    if (drops_space && at_start && bytes.starts_with(' ')) bytes.remove_prefix(1);
    at_start = at_start && (TokenBytes(id, show_special).empty() || IsControl(id));
    repairer.Push(bytes, text);
  }
  repairer.Flush(text);
  return text;
}

bool Tokenizer::IsEnd(TokenId id) const {
  return std::find(data_.end_ids.begin(), data_.end_ids.end(), id) != data_.end_ids.end();
}

bool Tokenizer::IsControl(TokenId id) const {
  return id >= 0 && id < vocab_size() && data_.types[id] == TokenType::kControl;
}

}  // namespace luna::text
