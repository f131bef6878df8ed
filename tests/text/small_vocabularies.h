// Hand-made tokenizers, small enough to follow by eye.
#ifndef LUNA_TESTS_TEXT_SMALL_VOCABULARIES_H_
#define LUNA_TESTS_TEXT_SMALL_VOCABULARIES_H_

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "core/text/byte_alphabet.h"
#include "core/text/tokenizer_data.h"

namespace luna::text {

inline TokenId AddToken(TokenizerData& data, const std::string& spelling,
                        TokenType type = TokenType::kNormal, float score = 0) {
  data.tokens.push_back(spelling);
  data.types.push_back(type);
  if (data.kind == TokenizerKind::kSentencePieceBpe) data.scores.push_back(score);
  return static_cast<TokenId>(data.tokens.size() - 1);
}

// Ids 0 to 255 are the bytes; then "he" 256, "ll" 257, "hell" 258, "hello" 259; control tokens
// <|im_start|> 260, <|im_end|> 261; user-defined <tag> 262.
inline TokenizerData SmallByteLevel() {
  TokenizerData data;
  for (int byte = 0; byte < 256; ++byte) AddToken(data, SpellByte(static_cast<uint8_t>(byte)));
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
           {"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}}) {
    data.merges.emplace_back(left, right);
    AddToken(data, left + right);
  }
  AddToken(data, "<|im_start|>", TokenType::kControl);
  data.end_ids.push_back(AddToken(data, "<|im_end|>", TokenType::kControl));
  AddToken(data, "<tag>", TokenType::kUserDefined);
  return data;
}

// <unk> 0, <s> 1, </s> 2, bytes 3 to 258, then "\u2581" 259, "a" 260, "b" 261, "ab" 262, "\u2581ab"
// 263, and a run of two spaces, user-defined, 264. Adds BOS and a space in front.
inline TokenizerData SmallSentencePiece() {
  TokenizerData data;
  data.kind = TokenizerKind::kSentencePieceBpe;
  AddToken(data, "<unk>", TokenType::kUnknown);
  data.bos = AddToken(data, "<s>", TokenType::kControl);
  data.end_ids.push_back(AddToken(data, "</s>", TokenType::kControl));
  for (int byte = 0; byte < 256; ++byte) {
    char spelling[8];
    std::snprintf(spelling, sizeof(spelling), "<0x%02X>", byte);
    AddToken(data, spelling, TokenType::kByte);
  }
  AddToken(data, "\u2581", TokenType::kNormal, -10);
  AddToken(data, "a", TokenType::kNormal, -11);
  AddToken(data, "b", TokenType::kNormal, -12);
  AddToken(data, "ab", TokenType::kNormal, -1);
  AddToken(data, "\u2581ab", TokenType::kNormal, -2);
  AddToken(data, "  ", TokenType::kUserDefined, -1000);
  data.add_space_prefix = true;
  data.add_bos = true;
  data.unknown = 0;
  return data;
}

}  // namespace luna::text

#endif  // LUNA_TESTS_TEXT_SMALL_VOCABULARIES_H_
