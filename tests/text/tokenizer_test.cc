#include "core/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/text/incremental_detokenizer.h"
#include "tests/text/small_vocabularies.h"

namespace luna::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Tokenizer> Make(TokenizerData data) {
  auto tokenizer = Tokenizer::Create(std::move(data));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::vector<TokenId> Encode(const Tokenizer& tokenizer, std::string_view text,
                            EncodeOptions options = {}) {
  auto ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *std::move(ids) : std::vector<TokenId>{};
}

TEST(ByteLevelTest, MergesWithinPiecesOnly) {
  const auto tokenizer = Make(SmallByteLevel());
  EXPECT_THAT(Encode(*tokenizer, "hello"), ElementsAre(259));
  EXPECT_THAT(Encode(*tokenizer, "hell hell"), ElementsAre(258, ' ', 258));
  EXPECT_THAT(Encode(*tokenizer, "hel1lo"), ElementsAre(256, 'l', '1', 'l', 'o'));
  EXPECT_THAT(Encode(*tokenizer, ""), ElementsAre());
}

TEST(ByteLevelTest, ControlTokensComeOutOfSpecialTextOnly) {
  const auto tokenizer = Make(SmallByteLevel());
  const std::string text = "<|im_end|>hello<tag>";
  const auto plain = Encode(*tokenizer, text);
  EXPECT_THAT(plain, testing::Not(testing::Contains(261)));
  EXPECT_EQ(plain.back(), 262);
  EXPECT_EQ(tokenizer->Decode(plain), text);
  const auto special = Encode(*tokenizer, text, {.parse_special = true});
  EXPECT_THAT(special, ElementsAre(261, 259, 262));
  EXPECT_EQ(tokenizer->Decode(special), "hello<tag>");
  EXPECT_EQ(tokenizer->Decode(special, /*show_special=*/true), text);
}

TEST(ByteLevelTest, MergesNeverMakeAControlToken) {
  TokenizerData data = SmallByteLevel();
  data.types[259] = TokenType::kControl;  // "hello"
  data.ignore_merges = true;
  const auto tokenizer = Make(std::move(data));
  EXPECT_THAT(Encode(*tokenizer, "hello"), ElementsAre(258, 'o'));
}

TEST(ByteLevelTest, MissingByteIsLeftOutUnlessThereIsAnUnknownToken) {
  TokenizerData data = SmallByteLevel();
  data.types['x'] = TokenType::kUnused;
  EXPECT_THAT(Encode(*Make(data), "axb"), ElementsAre('a', 'b'));
  data.unknown = 261;  // a control token: text must not become one
  EXPECT_THAT(Encode(*Make(data), "axb"), ElementsAre('a', 'b'));
  data.types[262] = TokenType::kUnknown;
  data.unknown = 262;
  EXPECT_THAT(Encode(*Make(data), "axb"), ElementsAre('a', 262, 'b'));
}

TEST(ByteLevelTest, TextThatIsNotUtf8IsRefusedWithItsOffset) {
  const auto tokenizer = Make(SmallByteLevel());
  const auto ids = tokenizer->Encode("ab\xED\xA0\x80");
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("byte 2 of 5"));
}

TEST(ByteLevelTest, AddsBosAndEosWhereTheDataSaysSo) {
  TokenizerData data = SmallByteLevel();
  data.bos = 260;
  EXPECT_THAT(Encode(*Make(data), "a", {.add_special = true}), ElementsAre('a'));
  data.add_bos = data.add_eos = true;
  EXPECT_THAT(Encode(*Make(data), "a", {.add_special = true}), ElementsAre(260, 'a', 261));
  EXPECT_THAT(Encode(*Make(data), "a"), ElementsAre('a'));
}

TEST(ByteLevelTest, SmolLmTakesNumeralsOneByOneAndSpacesBeforeThemWhole) {
  TokenizerData data = SmallByteLevel();
  data.merges = {{SpellByte(' '), SpellByte(' ')}, {"1", "2"}};
  const TokenId two_spaces = AddToken(data, SpellByte(' ') + SpellByte(' '));
  const TokenId twelve = AddToken(data, "12");
  EXPECT_THAT(Encode(*Make(data), "  12"), ElementsAre(' ', ' ', twelve));
  data.pre_tokenizer = "smollm";
  EXPECT_THAT(Encode(*Make(data), "  12"), ElementsAre(two_spaces, '1', '2'));
}

TEST(ByteLevelTest, SeveralEndTokensAreKnownByTheirSpelling) {
  TokenizerData data = SmallByteLevel();
  const TokenId other = AddToken(data, "<|endoftext|>", TokenType::kControl);
  const TokenId text = AddToken(data, "</s>");  // not a control token
  const auto tokenizer = Make(std::move(data));
  EXPECT_TRUE(tokenizer->IsEnd(261));
  EXPECT_TRUE(tokenizer->IsEnd(other));
  EXPECT_FALSE(tokenizer->IsEnd(text));
  EXPECT_EQ(tokenizer->data().end_ids.front(), 261);
}

TEST(SentencePieceTest, SpaceInFrontBestScoreFirstBytesForTheRest) {
  const auto tokenizer = Make(SmallSentencePiece());
  EXPECT_THAT(Encode(*tokenizer, "ab"), ElementsAre(263));
  EXPECT_THAT(Encode(*tokenizer, "ab ab"), ElementsAre(263, 263));
  EXPECT_THAT(Encode(*tokenizer, "é"), ElementsAre(259, 3 + 0xC3, 3 + 0xA9));
  EXPECT_THAT(Encode(*tokenizer, "ab", {.add_special = true}), ElementsAre(1, 263));
  EXPECT_THAT(Encode(*tokenizer, "ab", {.before = TextBefore::kText}), ElementsAre(262));
}

TEST(SentencePieceTest, UserDefinedTokensAreMatchedFirstWithTheSpaceInFront) {
  const auto tokenizer = Make(SmallSentencePiece());
  EXPECT_THAT(Encode(*tokenizer, " ab"), ElementsAre(264, 262));
  EXPECT_THAT(Encode(*tokenizer, "a   ab"), ElementsAre(259, 260, 264, 263));
}

TEST(SentencePieceTest, DecodeDropsTheSpaceThatEncodePutInFront) {
  const auto tokenizer = Make(SmallSentencePiece());
  for (const std::string text : {"ab", " ab", "  ab", "ab é  \n"}) {
    EXPECT_EQ(tokenizer->Decode(Encode(*tokenizer, text)), text);
    EXPECT_EQ(tokenizer->Decode(Encode(*tokenizer, text, {.add_special = true})), text);
  }
  // A stream continues a text: there the space counts.
  IncrementalDetokenizer detokenizer(tokenizer.get());
  std::string out;
  detokenizer.Append(263, out);
  EXPECT_EQ(out, " ab");
}

TEST(SentencePieceTest, SpellingsOfBytesAndControlTokensAreText) {
  const auto tokenizer = Make(SmallSentencePiece());
  for (const std::string text : {"<0x0A>", "</s>", "<unk>"}) {
    const auto ids = Encode(*tokenizer, text);
    EXPECT_GT(ids.size(), 4u) << text;
    EXPECT_EQ(tokenizer->Decode(ids), text);
  }
}

TEST(SentencePieceTest, CharactersThatAreOnlyPartsOfTokensStillMerge) {
  TokenizerData data = SmallSentencePiece();
  const TokenId xy = AddToken(data, "xy", TokenType::kNormal, -3);
  data.add_space_prefix = false;
  const auto tokenizer = Make(std::move(data));
  EXPECT_THAT(Encode(*tokenizer, "xy"), ElementsAre(xy));
  EXPECT_THAT(Encode(*tokenizer, "yx"), ElementsAre(3 + 'y', 3 + 'x'));
}

TEST(SentencePieceTest, TokensThatReachIntoTheNextWordAreFound) {
  TokenizerData data = SmallSentencePiece();
  AddToken(data, "a\u2581", TokenType::kNormal, -0.5f);
  const TokenId reaches = AddToken(data,
                                   "a\u2581"
                                   "b",
                                   TokenType::kNormal, -0.4f);
  EXPECT_THAT(Encode(*Make(std::move(data)), "a b a"), ElementsAre(259, reaches, 259, 260));
}

TEST(SentencePieceTest, WithoutByteTokensNeighboursShareOneUnknown) {
  TokenizerData data = SmallSentencePiece();
  for (TokenType& type : data.types) {
    if (type == TokenType::kByte) type = TokenType::kUnused;
  }
  EXPECT_THAT(Encode(*Make(data), "aéé"), ElementsAre(259, 260, 0));
  data.unknown.reset();
  EXPECT_EQ(Tokenizer::Create(data).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SentencePieceTest, MetaspaceRulesPutTheSpaceWhereNoneIs) {
  TokenizerData data = SmallSentencePiece();
  data.merges = {{"a", "b"}, {"\u2581", "ab"}};
  AddToken(data, "<x>", TokenType::kUserDefined);  // 265
  EXPECT_THAT(Encode(*Make(data), "ab<x>ab"), ElementsAre(263, 265, 263));
  data.space_prefix_rule = SpacePrefixRule::kMetaspaceFirst;
  EXPECT_THAT(Encode(*Make(data), " ab<x>ab"), ElementsAre(263, 265, 262));
  data.space_prefix_rule = SpacePrefixRule::kMetaspaceAlways;
  EXPECT_THAT(Encode(*Make(data), "ab<x> ab<x>ab"), ElementsAre(263, 265, 263, 265, 263));
}

TEST(SentencePieceTest, RemovesExtraSpacesWhereTheDataSaysSo) {
  TokenizerData data = SmallSentencePiece();
  data.remove_extra_whitespaces = true;
  EXPECT_THAT(Encode(*Make(data), "  ab   ab "), ElementsAre(263, 263));
}

TEST(TokenizerTest, TextWithoutSpacesIsNotQuadratic) {
  // Quadratic work would be 10^11 steps here, and hang.
  const auto byte_level = Make(SmallByteLevel());
  const auto sentence_piece = Make(SmallSentencePiece());
  for (const char* unit : {"a", "ab", "hello", " ", "\n", "\u0301\u0316", "=", "가"}) {
    std::string text;
    while (text.size() < 400'000) text += unit;
    EXPECT_EQ(byte_level->Decode(Encode(*byte_level, text)), text);
    EXPECT_EQ(sentence_piece->Decode(Encode(*sentence_piece, text)), text);
  }
  TokenizerData nfc = SmallByteLevel();
  nfc.normalize_nfc = true;
  std::string marks = "a";
  for (int i = 0; i < 100'000; ++i) marks += "\u0301\u0316";
  EXPECT_FALSE(Encode(*Make(std::move(nfc)), marks).empty());
}

TEST(TokenizerTest, NfcJoinsJamoBeforeSplitting) {
  TokenizerData data = SmallByteLevel();
  data.normalize_nfc = true;
  const auto tokenizer = Make(std::move(data));
  EXPECT_EQ(tokenizer->Decode(Encode(*tokenizer, "\u1112\u1161\u11AB e\u0301")), "\uD55C \u00E9");
}

TEST(TokenizerTest, CreateNamesWhatIsWrong) {
  struct Case {
    std::string expected;
    std::function<void(TokenizerData&)> damage;
    bool sentence_piece = false;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases = {
      {"0 tokens", [](TokenizerData& d) { d.tokens.clear(); }},
      {"token types", [](TokenizerData& d) { d.types.pop_back(); }},
      {"the limit is 1024", [](TokenizerData& d) { d.tokens[5] = std::string(2000, 'x'); }},
      {"token 7 is not valid UTF-8", [](TokenizerData& d) { d.tokens[7] = "\xFF"; }},
      {"BOS token is 999", [](TokenizerData& d) { d.bos = 999; }},
      {"unknown token is -1", [](TokenizerData& d) { d.unknown = -1; }},
      {"end token is 263", [](TokenizerData& d) { d.end_ids = {263}; }},
      {"names no BOS", [](TokenizerData& d) { d.add_bos = true; }},
      {"merge 4 (\"h\" + \"zz\"): token \"zz\"",
       [](TokenizerData& d) { d.merges.emplace_back("h", "zz"); }},
      {"token \"hh\"", [](TokenizerData& d) { d.merges.emplace_back("h", "h"); }},
      {"pre-tokenizer \"default\" is not supported",
       [](TokenizerData& d) { d.pre_tokenizer = "default"; }},
      {"scores", [](TokenizerData& d) { d.scores.pop_back(); }, true},
      {"score of token 9", [nan](TokenizerData& d) { d.scores[9] = nan; }, true},
      {"neither merges nor scores", [](TokenizerData& d) { d.scores.clear(); }, true},
      {"byte token 3", [](TokenizerData& d) { d.tokens[3] = "<0xzz>"; }, true},
      {"merge 0",
       [](TokenizerData& d) {
         d.merges = {{"a", "q"}};
       },
       true},
  };
  for (const Case& c : cases) {
    TokenizerData data = c.sentence_piece ? SmallSentencePiece() : SmallByteLevel();
    c.damage(data);
    const auto created = Tokenizer::Create(std::move(data));
    EXPECT_FALSE(created.ok()) << c.expected;
    EXPECT_THAT(std::string(created.status().message()), HasSubstr(c.expected));
  }
}

TEST(IncrementalDetokenizerTest, HangulSplitOverTokensComesOutWhole) {
  const auto tokenizer = Make(SmallByteLevel());
  IncrementalDetokenizer detokenizer(tokenizer.get());
  std::string out;
  detokenizer.Append(0xED, out);
  detokenizer.Append(0x95, out);
  detokenizer.Append(261, out);  // a control token adds nothing and takes nothing away
  EXPECT_EQ(out, "");
  detokenizer.Append(0x9C, out);
  EXPECT_EQ(out, "\uD55C");
  detokenizer.Append(0xF0, out);
  detokenizer.Flush(out);
  EXPECT_EQ(out, "\uD55C\uFFFD");
}

}  // namespace
}  // namespace luna::text
