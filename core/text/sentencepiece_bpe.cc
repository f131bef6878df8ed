#include "core/text/sentencepiece_bpe.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/text/utf8.h"

namespace luna::text {
namespace {

constexpr std::string_view kSpace = "\u2581";
constexpr char32_t kSpaceCharacter = 0x2581;

std::string EscapeSpaces(std::string_view text) {
  return absl::StrReplaceAll(AbslView(text), {{" ", AbslView(kSpace)}});
}

std::string UnescapeSpaces(std::string_view text) {
  return absl::StrReplaceAll(AbslView(text), {{AbslView(kSpace), " "}});
}

// The value of "<0xNN>", or -1.
int ByteValue(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return -1;
  int value = 0;
  for (const char digit : spelling.substr(3, 2)) {
    const size_t place = std::string_view("0123456789ABCDEF").find(digit);
    if (place == std::string_view::npos) return -1;
    value = value * 16 + static_cast<int>(place);
  }
  return value;
}

bool IsOneCharacter(std::string_view text) { return Utf8Length(text.front()) == text.size(); }

std::string CollapseSpaces(std::string_view text) {
  std::string collapsed;
  for (const char c : text) {
    if (c == ' ' && (collapsed.empty() || collapsed.back() == ' ')) continue;
    collapsed.push_back(c);
  }
  if (!collapsed.empty() && collapsed.back() == ' ') collapsed.pop_back();
  return collapsed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceBpe::Create(TokenizerData data) {
  if (data.merges.empty() && data.scores.empty()) {
    return absl::InvalidArgumentError("the SentencePiece tokenizer has neither merges nor scores");
  }
  std::unique_ptr<SentencePieceBpe> tokenizer(new SentencePieceBpe(std::move(data)));
  IdsBySpelling pieces;
  LUNA_RETURN_IF_ERROR(tokenizer->IndexTokens(pieces));
  if (tokenizer->data_.merges.empty()) {
    tokenizer->IndexScores(pieces);
  } else {
    LUNA_RETURN_IF_ERROR(tokenizer->IndexMerges(pieces));
    tokenizer->data_.merges = {};  // hundreds of thousands of strings that nobody reads again
  }
  return tokenizer;
}

absl::Status SentencePieceBpe::IndexTokens(IdsBySpelling& pieces) {
  const bool matches_raw_text = !data_.merges.empty();
  byte_tokens_.fill(-1);
  pieces.reserve(data_.tokens.size());
  for (TokenId id = 0; id < vocab_size(); ++id) {
    const std::string& spelling = data_.tokens[id];
    switch (data_.types[id]) {
      case TokenType::kByte: {
        const int byte = ByteValue(spelling);
        if (byte < 0) {
          return absl::InvalidArgumentError(absl::StrCat("byte token ", id, " is spelled \"",
                                                         spelling, "\", not <0x00> to <0xFF>"));
        }
        byte_tokens_[byte] = id;
        const char value = static_cast<char>(byte);
        AppendTokenBytes({&value, 1});
        continue;
      }
      case TokenType::kControl:
      case TokenType::kUnknown:
        AddSpecialSpelling(spelling, id);
        AppendTokenBytes(spelling);
        continue;
      case TokenType::kUserDefined:
        if (matches_raw_text) {
          AddPlainSpelling(spelling, id);
          pieces.emplace(spelling, id);
        } else if (!spelling.empty()) {
          escaped_user_defined_.Add(EscapeSpaces(spelling), id);
        }
        break;
      case TokenType::kNormal:
        pieces.emplace(spelling, id);
        break;
      case TokenType::kUnused:
        break;
    }
    AppendTokenBytes(UnescapeSpaces(spelling));
  }
  for (const auto& [spelling, id] : pieces) {
    if (spelling.empty() || !IsOneCharacter(spelling)) continue;
    size_t offset = 0;
    symbols_.emplace(NextCodePoint(spelling, offset), id);
  }
  const auto missing = std::find(byte_tokens_.begin(), byte_tokens_.end(), -1);
  if (missing != byte_tokens_.end() && !data_.unknown.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the SentencePiece tokenizer has no token for byte ",
                     missing - byte_tokens_.begin(), " and no unknown token"));
  }
  return absl::OkStatus();
}

void SentencePieceBpe::NoteInnerWordStarts(std::string_view piece) {
  char32_t previous = kSpaceCharacter;
  for (size_t offset = 0; offset < piece.size();) {
    const char32_t character = NextCodePoint(piece, offset);
    if (character == kSpaceCharacter && previous != kSpaceCharacter) {
      joined_to_next_word_.insert(previous);
    }
    previous = character;
  }
}

absl::Status SentencePieceBpe::IndexMerges(const IdsBySpelling& pieces) {
  merges_.Reserve(data_.merges.size());
  for (size_t rank = 0; rank < data_.merges.size(); ++rank) {
    const auto& [left, right] = data_.merges[rank];
    const std::string joined = left + right;
    for (const std::string* part : {&left, &right, &joined}) {
      if (pieces.contains(*part)) continue;
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " (\"", left, "\" + \"", right,
                                                     "\"): token \"", *part,
                                                     "\" is not in the vocabulary"));
    }
    merges_.Add(pieces.at(left), pieces.at(right), {static_cast<int32_t>(rank), pieces.at(joined)});
    NoteInnerWordStarts(joined);
  }
  return absl::OkStatus();
}

TokenId SentencePieceBpe::SymbolFor(std::string_view part, const IdsBySpelling& pieces) {
  const auto piece = pieces.find(part);
  if (piece != pieces.end()) return piece->second;
  if (!IsOneCharacter(part)) return -1;
  size_t offset = 0;
  const auto [symbol, is_new] = symbols_.emplace(NextCodePoint(part, offset), -1);
  if (is_new) {
    symbol->second = vocab_size() + static_cast<TokenId>(extra_characters_.size());
    extra_characters_.emplace_back(part);
  }
  return symbol->second;
}

// Every way to make a token out of two symbols is a merge, ranked by the token's score.
void SentencePieceBpe::IndexScores(const IdsBySpelling& pieces) {
  std::vector<TokenId> by_score;
  by_score.reserve(pieces.size());
  for (const auto& [spelling, id] : pieces) by_score.push_back(id);
  std::sort(by_score.begin(), by_score.end(), [this](TokenId a, TokenId b) {
    return data_.scores[a] != data_.scores[b] ? data_.scores[a] > data_.scores[b] : a < b;
  });
  merges_.Reserve(2 * by_score.size());
  int32_t rank = 0;
  for (size_t i = 0; i < by_score.size(); ++i) {
    const TokenId id = by_score[i];
    if (i > 0 && data_.scores[id] != data_.scores[by_score[i - 1]]) ++rank;
    const std::string_view piece = data_.tokens[id];
    if (piece.empty()) continue;
    NoteInnerWordStarts(piece);
    for (size_t cut = Utf8Length(piece[0]); cut < piece.size(); cut += Utf8Length(piece[cut])) {
      const TokenId left = SymbolFor(piece.substr(0, cut), pieces);
      if (left < 0) continue;
      const TokenId right = SymbolFor(piece.substr(cut), pieces);
      if (right >= 0) merges_.Add(left, right, {rank, id});
    }
  }
}

std::string SentencePieceBpe::Escape(std::string_view segment, TextBefore before) const {
  std::string collapsed;
  if (data_.remove_extra_whitespaces) {
    collapsed = CollapseSpaces(segment);
    segment = collapsed;
  }
  std::string escaped = EscapeSpaces(segment);
  if (escaped.empty() || !data_.add_space_prefix || before == TextBefore::kText) return escaped;
  const bool has_space = std::string_view(escaped).starts_with(kSpace);
  switch (data_.space_prefix_rule) {
    case SpacePrefixRule::kEverySegment:
      break;
    case SpacePrefixRule::kMetaspaceFirst:
      if (has_space || before != TextBefore::kNothing) return escaped;
      break;
    case SpacePrefixRule::kMetaspaceAlways:
      if (has_space) return escaped;
      break;
  }
  return escaped.insert(0, kSpace);
}

absl::Status SentencePieceBpe::EncodeSegment(std::string_view segment, TextBefore before,
                                             std::vector<TokenId>& ids) const {
  const std::string buffer = Escape(segment, before);
  const std::string_view escaped = buffer;
  if (escaped_user_defined_.empty()) {
    EncodeText(escaped, ids);
    return absl::OkStatus();
  }
  for (size_t offset = 0; offset < escaped.size();) {
    const TokenTrie::Match match = escaped_user_defined_.FindNext(escaped, offset);
    EncodeText(escaped.substr(offset, match.offset - offset), ids);
    if (match.size > 0) ids.push_back(match.id);
    offset = match.offset + match.size;
  }
  return absl::OkStatus();
}

void SentencePieceBpe::EncodeText(std::string_view escaped, std::vector<TokenId>& ids) const {
  BpeMerger merger(&merges_);
  std::vector<TokenId> symbols;
  char32_t previous = kSpaceCharacter;
  for (size_t offset = 0; offset < escaped.size();) {
    const size_t begin = offset;
    const char32_t character = NextCodePoint(escaped, offset);
    if (character == kSpaceCharacter && previous != kSpaceCharacter &&
        !joined_to_next_word_.contains(previous)) {
      merger.Merge(symbols);
      AppendMerged(symbols, ids);
      symbols.clear();
    }
    const auto symbol = symbols_.find(character);
    if (symbol != symbols_.end()) {
      symbols.push_back(symbol->second);
    } else {
      AppendBytes(escaped.substr(begin, offset - begin), symbols);
    }
    previous = character;
  }
  merger.Merge(symbols);
  AppendMerged(symbols, ids);
}

void SentencePieceBpe::AppendBytes(std::string_view character, std::vector<TokenId>& ids) const {
  const bool has_all = std::all_of(character.begin(), character.end(), [this](char c) {
    return byte_tokens_[static_cast<uint8_t>(c)] >= 0;
  });
  if (has_all) {
    for (const char c : character) ids.push_back(byte_tokens_[static_cast<uint8_t>(c)]);
  } else if (ids.empty() || ids.back() != *data_.unknown) {  // neighbours share one unknown token
    ids.push_back(*data_.unknown);
  }
}

void SentencePieceBpe::AppendMerged(const std::vector<TokenId>& symbols,
                                    std::vector<TokenId>& ids) const {
  for (const TokenId symbol : symbols) {
    if (symbol < vocab_size()) {
      ids.push_back(symbol);
    } else {
      AppendBytes(extra_characters_[symbol - vocab_size()], ids);
    }
  }
}

}  // namespace luna::text
