#include "core/text/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace luna::text {
namespace {

const std::string kReplacement = "\uFFFD";

TEST(Utf8Test, ValidPrefixEndsBeforeTheFirstMalformedByte) {
  struct Case {
    std::string text;
    size_t valid;
  };
  const std::vector<Case> cases = {
      {"", 0},
      {"plain ascii, longer than a word", 31},
      {"한글", 6},
      {"😀", 4},
      {"\u07FF\uFFFF\U0010FFFF", 9},
      {"ab\x80", 2},            // a continuation without a lead
      {"ab\xC0\x80", 2},        // overlong
      {"\xE0\x9F\xBF", 0},      // overlong
      {"\xED\xA0\x80", 0},      // surrogate
      {"\xF4\x90\x80\x80", 0},  // over U+10FFFF
      {"\xF5\x80\x80\x80", 0},
      {"가\xEA\xB0", 3},  // cut off
      {"가\xEA\xB0z", 3},
      {"12345678\xFF", 8},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ValidUtf8Prefix(c.text), c.valid) << testing::PrintToString(c.text);
    EXPECT_EQ(CheckUtf8(c.text).ok(), c.valid == c.text.size());
  }
}

TEST(Utf8Test, CheckNamesTheOffset) {
  const absl::Status status = CheckUtf8("abc\xFFxyz");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("byte 3 of 7"), absl::string_view::npos) << status;
}

TEST(Utf8Test, CodePointsSurviveTheRoundTrip) {
  for (char32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 61) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(c, text);
    EXPECT_EQ(ValidUtf8Prefix(text), text.size());
    EXPECT_EQ(Utf8Length(text[0]), text.size());
    size_t offset = 0;
    EXPECT_EQ(NextCodePoint(text, offset), c);
    EXPECT_EQ(offset, text.size());
  }
}

std::string Repair(const std::vector<std::string>& pieces) {
  Utf8Repairer repairer;
  std::string out;
  for (const std::string& piece : pieces) repairer.Push(piece, out);
  repairer.Flush(out);
  return out;
}

TEST(Utf8RepairerTest, CharacterSplitOverPiecesComesOutOnceAndWhole) {
  Utf8Repairer repairer;
  std::string out;
  for (const char byte : std::string("\xF0\x9F\x98")) {
    repairer.Push({&byte, 1}, out);
    EXPECT_EQ(out, "");
  }
  repairer.Push("\x80!", out);
  EXPECT_EQ(out, "😀!");
  repairer.Flush(out);
  EXPECT_EQ(out, "😀!");
}

// The examples of Unicode 15, chapter 3.9, tables 3-8 to 3-11.
TEST(Utf8RepairerTest, SubstitutesMaximalSubparts) {
  const auto replaced = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += kReplacement;
    return text;
  };
  EXPECT_EQ(Repair({"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"}), replaced(8) + "A");
  EXPECT_EQ(Repair({"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"}), replaced(8) + "A");
  EXPECT_EQ(Repair({"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"}),
            replaced(5) + "A" + replaced(2) + "B");
  EXPECT_EQ(Repair({"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"}), replaced(4) + "A");
}

TEST(Utf8RepairerTest, IncompleteCharacterAtTheEndIsOneReplacement) {
  EXPECT_EQ(Repair({"가", "\xEA\xB0"}), "가" + kReplacement);
  EXPECT_EQ(Repair({"\xF0"}), kReplacement);
}

TEST(Utf8RepairerTest, SplittingNeverChangesTheResult) {
  std::mt19937 random(7);
  const std::string alphabet = "a\x80\xBF\xC3\xE0\xEA\xED\xF0\xF4\xFF\x9F\xB0";
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (size_t i = random() % 12; i > 0; --i) bytes += alphabet[random() % alphabet.size()];
    std::vector<std::string> pieces;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = 1 + random() % 3;
      pieces.push_back(bytes.substr(at, size));
      at += size;
    }
    const std::string whole = Repair({bytes});
    EXPECT_EQ(Repair(pieces), whole);
    EXPECT_EQ(ValidUtf8Prefix(whole), whole.size());
  }
}

}  // namespace
}  // namespace luna::text
