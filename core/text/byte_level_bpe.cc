#include "core/text/byte_level_bpe.h"

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/text/byte_alphabet.h"
#include "core/text/nfc.h"
#include "core/text/utf8.h"

namespace luna::text {
namespace {

bool IsAscii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<uint8_t>(c) >= 0x80) return false;
  }
  return true;
}

// Control tokens never come out of ordinary text, whatever the merges say.
bool ComesFromText(TokenType type) {
  return type != TokenType::kControl && type != TokenType::kUnknown;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> ByteLevelBpe::Create(TokenizerData data) {
  LUNA_ASSIGN_OR_RETURN(std::unique_ptr<PreTokenizer> pre_tokenizer,
                        PreTokenizer::Create(data.pre_tokenizer));
  std::unique_ptr<ByteLevelBpe> tokenizer(new ByteLevelBpe(std::move(data)));
  tokenizer->pre_tokenizer_ = std::move(pre_tokenizer);
  tokenizer->IndexTokens();
  LUNA_RETURN_IF_ERROR(tokenizer->IndexMerges());
  tokenizer->data_.merges = {};  // hundreds of thousands of strings that nobody reads again
  return tokenizer;
}

void ByteLevelBpe::IndexTokens() {
  byte_tokens_.fill(-1);
  std::string bytes;
  for (TokenId id = 0; id < vocab_size(); ++id) {
    const std::string& spelling = data_.tokens[id];
    const TokenType type = data_.types[id];
    bytes.clear();
    const bool is_text = type == TokenType::kNormal || type == TokenType::kUnused;
    // Added tokens are spelled as they are shown; so is what does not keep to the byte alphabet.
    if (!is_text || !AppendSpelledBytes(spelling, bytes)) bytes = spelling;
    AppendTokenBytes(bytes);
    if (type == TokenType::kUserDefined) AddPlainSpelling(spelling, id);
    if (!ComesFromText(type)) AddSpecialSpelling(spelling, id);
    if (type != TokenType::kNormal) continue;
    if (bytes.size() == 1 && byte_tokens_[static_cast<uint8_t>(bytes[0])] < 0) {
      byte_tokens_[static_cast<uint8_t>(bytes[0])] = id;
    }
    if (data_.ignore_merges) whole_pieces_.emplace(bytes, id);
  }
}

absl::Status ByteLevelBpe::IndexMerges() {
  absl::flat_hash_map<std::string_view, TokenId> ids;
  ids.reserve(data_.tokens.size());
  for (TokenId id = 0; id < vocab_size(); ++id) ids.emplace(data_.tokens[id], id);
  merges_.Reserve(data_.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < data_.merges.size(); ++rank) {
    const auto& [left, right] = data_.merges[rank];
    joined.assign(left).append(right);
    const auto left_id = ids.find(left);
    const auto right_id = ids.find(right);
    const auto joined_id = ids.find(joined);
    const auto missing = left_id == ids.end()    ? std::string_view(left)
                         : right_id == ids.end() ? std::string_view(right)
                                                 : std::string_view(joined);
    if (left_id == ids.end() || right_id == ids.end() || joined_id == ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " (\"", left, "\" + \"", right,
                                                     "\"): token \"", AbslView(missing),
                                                     "\" is not in the vocabulary"));
    }
    if (!ComesFromText(data_.types[joined_id->second])) continue;
    merges_.Add(left_id->second, right_id->second, {static_cast<int32_t>(rank), joined_id->second});
  }
  return absl::OkStatus();
}

absl::Status ByteLevelBpe::EncodeSegment(std::string_view segment, TextBefore before,
                                         std::vector<TokenId>& ids) const {
  std::string changed;
  if (data_.normalize_nfc && !IsAscii(segment)) {
    changed = NormalizeNfc(segment);
    segment = changed;
  }
  if (data_.add_space_prefix && before != TextBefore::kText && segment.front() != ' ') {
    changed.assign(absl::StrCat(" ", AbslView(segment)));
    segment = changed;
  }
  std::vector<size_t> ends;
  LUNA_RETURN_IF_ERROR(pre_tokenizer_->Split(segment, ends));
  BpeMerger merger(&merges_);
  std::vector<TokenId> symbols;
  size_t begin = 0;
  for (const size_t end : ends) {
    EncodePiece(segment.substr(begin, end - begin), merger, symbols, ids);
    begin = end;
  }
  return absl::OkStatus();
}

void ByteLevelBpe::EncodePiece(std::string_view piece, BpeMerger& merger,
                               std::vector<TokenId>& symbols, std::vector<TokenId>& ids) const {
  if (data_.ignore_merges) {
    const auto whole = whole_pieces_.find(AbslView(piece));
    if (whole != whole_pieces_.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  symbols.clear();
  for (const char c : piece) {
    TokenId id = byte_tokens_[static_cast<uint8_t>(c)];
    // Some vocabularies lack bytes that their training text had none of (SmolLM2: some control
    // characters). The reference leaves them out too. A file's "unknown" token that is a control
    // token is no way out: text never becomes one.
    if (id < 0 && data_.unknown.has_value() && data_.types[*data_.unknown] == TokenType::kUnknown) {
      id = *data_.unknown;
    }
    if (id >= 0) symbols.push_back(id);
  }
  merger.Merge(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

}  // namespace luna::text
