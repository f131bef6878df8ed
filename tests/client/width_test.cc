#include "client/term/width.h"

#include <gtest/gtest.h>

#include "client/term/line.h"
#include "client/term/style.h"

namespace luna::term {
namespace {

TEST(DisplayWidthTest, CountsColumnsAndNotBytes) {
  EXPECT_EQ(DisplayWidth(""), 0);
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("한글"), 4);
  EXPECT_EQ(DisplayWidth("日本"), 4);
  EXPECT_EQ(DisplayWidth("é"), 1);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1);  // a letter and a mark
}

TEST(DisplayWidthTest, DecomposedHangulIsAsWideAsComposed) {
  EXPECT_EQ(DisplayWidth("\u1112\u1161\u11AB"), 2);  // 한 in jamo
  EXPECT_EQ(DisplayWidth("\u1112\u1161\u11AB\u1100\u1173\u11AF"), 4);
}

TEST(DisplayWidthTest, EmojiSequencesAreOneWideCharacter) {
  EXPECT_EQ(DisplayWidth("😀"), 2);
  EXPECT_EQ(DisplayWidth("👩‍👩‍👧"), 2);  // with joiners
  EXPECT_EQ(DisplayWidth("👍🏽"), 2);            // with a skin tone
  EXPECT_EQ(DisplayWidth("🇰🇷"), 2);                  // a flag of two letters
  EXPECT_EQ(DisplayWidth("❤️"), 2);              // with the emoji selector
}

TEST(DisplayWidthTest, AnInvalidByteIsOneColumn) { EXPECT_EQ(DisplayWidth("a\xFFz"), 3); }

TEST(CutToWidthTest, KeepsWhatFits) {
  EXPECT_EQ(CutToWidth("토끼", 4), "토끼");
  EXPECT_EQ(CutToWidth("rabbit", 6), "rabbit");
}

TEST(CutToWidthTest, NeverCutsThroughACharacter) {
  EXPECT_EQ(CutToWidth("토끼와 거북이", 6), "토끼..");
  EXPECT_EQ(CutToWidth("토끼와 거북이", 7), "토끼..");  // half a syllable does not fit
  EXPECT_EQ(CutToWidth("rabbit", 4), "ra..");
  EXPECT_EQ(CutToWidth("👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧", 4),
            "👩‍👩‍👧..");
  EXPECT_EQ(CutToWidth("e\u0301e\u0301e\u0301e\u0301", 3), "e\u0301..");
  EXPECT_EQ(CutToWidth("토끼", 1), ".");
  EXPECT_EQ(CutToWidth("토끼", 0), "");
}

TEST(CutFrontToWidthTest, KeepsTheEnd) {
  EXPECT_EQ(CutFrontToWidth("토끼와 거북이", 6), "..북이");
  EXPECT_EQ(CutFrontToWidth("the rabbit", 8), "..rabbit");
  EXPECT_EQ(CutFrontToWidth("끝", 2), "끝");
}

TEST(CutToWidthTest, EveryCutOfAMixedTextFits) {
  const std::string text = "a토b끼😀c👩‍👩‍👧 \u1112\u1161\u11AB끝.";
  for (int columns = 0; columns <= DisplayWidth(text) + 2; ++columns) {
    EXPECT_LE(DisplayWidth(CutToWidth(text, columns)), columns);
    EXPECT_LE(DisplayWidth(CutFrontToWidth(text, columns)), columns);
    EXPECT_EQ(DisplayWidth(Fit(text, columns)), columns);
    EXPECT_EQ(DisplayWidth(Fit(text, columns, Align::kRight)), columns);
  }
}

TEST(FitTest, PadsByColumns) {
  EXPECT_EQ(Fit("민준", 6), "민준  ");
  EXPECT_EQ(Fit("42", 5, Align::kRight), "   42");
}

TEST(CutAtSentenceTest, EndsWhereASentenceEnds) {
  EXPECT_EQ(CutAtSentence("하나예요. 둘이에요. 셋이에요.", 13), "하나예요. 둘이에요.");
  EXPECT_EQ(CutAtSentence("He said \"Go.\" Then he went away.", 18), "He said \"Go.\"");
  EXPECT_EQ(CutAtSentence("Short.", 100), "Short.");
}

TEST(CutAtSentenceTest, CutsBetweenCharactersWhereNoSentenceEndsLateEnough) {
  EXPECT_EQ(CutAtSentence("가나다라마바사", 3), "가나다...");
  EXPECT_EQ(CutAtSentence("No. abcdefghijklmnop", 10), "No. abcdef...");
}

TEST(WrapTest, BreaksAtBlanks) {
  EXPECT_EQ(Wrap("the quick brown fox", 10), (std::vector<std::string>{"the quick", "brown fox"}));
  EXPECT_EQ(Wrap("토끼가 숲으로 갔어요.", 8),
            (std::vector<std::string>{"토끼가", "숲으로", "갔어요."}));
  EXPECT_EQ(Wrap("a\n\nb", 10), (std::vector<std::string>{"a", "", "b"}));
}

TEST(WrapTest, BreaksAWordWiderThanALine) {
  EXPECT_EQ(Wrap("가나다라", 4), (std::vector<std::string>{"가나", "다라"}));
  for (const auto& line : Wrap("ab 가나다라마바 cd efghijklmnop", 5)) {
    EXPECT_LE(DisplayWidth(line), 5) << line;
  }
}

TEST(OneLineTest, NothingInItMovesTheCursor) {
  EXPECT_EQ(OneLine("  a\n\tb\x1b[31m  c\u009b "), "a b [31m c");
  EXPECT_EQ(OneLine("a\xFFz"), "a\uFFFDz");
}

TEST(WithoutControlsTest, DropsEscapesAndKeepsLines) {
  EXPECT_EQ(WithoutControls("a\x1b[2J\nb\tc\x07"), "a[2J\nb\tc");
}

TEST(WithoutControlsTest, DropsMarksThatTurnTheDirectionOfWriting) {
  for (const char* mark : {"\u061C", "\u200E", "\u200F", "\u202A", "\u202E", "\u2066", "\u2069"}) {
    const std::string text = std::string("a") + mark + "b";
    EXPECT_EQ(WithoutControls(text), "ab");
    EXPECT_EQ(OneLine(text), "ab");
  }
  EXPECT_EQ(OneLine("a\u200Db"), "a\u200Db");  // a joiner only joins
}

TEST(LineTest, NeverExceedsItsColumns) {
  const Style style(false);
  for (int columns = 0; columns < 40; ++columns) {
    Line line(style, columns);
    line.Cell("민준", 6).Cell("12", 5, Align::kRight).Text(" 토끼가").Bar(0.5, 10).Text("끝");
    EXPECT_LE(DisplayWidth(line.str()), columns);
  }
}

TEST(StyleTest, BarIsAsWideAsAskedAndShowsSmallShares) {
  const Style style(false);
  for (const double fraction : {-1.0, 0.0, 0.001, 0.5, 0.99, 1.0, 7.0}) {
    EXPECT_EQ(DisplayWidth(style.Bar(fraction, 10)), 10) << fraction;
  }
  EXPECT_EQ(style.Bar(0.5, 4), "##..");
  EXPECT_EQ(style.Bar(0.001, 4), "#...");
}

TEST(StyleTest, WithColoursTheFilledPartIsABlockOfTheSameLetters) {
  EXPECT_EQ(Style(true).Bar(0.5, 4), "\x1b[32;42m##\x1b[0m\x1b[2m..\x1b[0m");
}

TEST(StyleTest, NumbersReadWell) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(512 * 1024), "512 KiB");
  EXPECT_EQ(Bytes(16'384'000), "15.6 MiB");
  EXPECT_EQ(WithCommas(1'234'567), "1,234,567");
  EXPECT_EQ(WithCommas(12), "12");
  EXPECT_EQ(Millis(0.25), "250 µs");
  EXPECT_EQ(Millis(12.345), "12.3 ms");
  EXPECT_EQ(Millis(1234), "1.23 s");
}

}  // namespace
}  // namespace luna::term
