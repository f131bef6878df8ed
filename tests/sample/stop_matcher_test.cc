#include "core/sample/stop_matcher.h"

#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::sample {
namespace {

using ::testing::ElementsAre;

struct Outcome {
  int stop = -1;
  std::vector<std::string> deltas;  // one a token, up to the match
  std::string tail;                 // what Flush gave, without a match
};

Outcome Feed(const std::vector<std::string>& stops, const std::vector<std::string_view>& tokens,
             size_t num_unarmed = 0) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (size_t i = 0; i < tokens.size() && outcome.stop < 0; ++i) {
    outcome.stop = matcher.Append(tokens[i], i >= num_unarmed, outcome.deltas.emplace_back());
  }
  matcher.Flush(outcome.tail);
  return outcome;
}

TEST(StopMatcherTest, WithoutStopsAllGoesOut) {
  const Outcome outcome = Feed({}, {"a", "", "bc"});
  EXPECT_EQ(outcome.stop, -1);
  EXPECT_THAT(outcome.deltas, ElementsAre("a", "", "bc"));
  EXPECT_EQ(outcome.tail, "");
}

TEST(StopMatcherTest, FindsAStopInsideOneToken) {
  const Outcome outcome = Feed({"END"}, {"one ", "two END three"});
  EXPECT_EQ(outcome.stop, 0);
  EXPECT_THAT(outcome.deltas, ElementsAre("one ", "two "));
  EXPECT_EQ(outcome.tail, "");
}

TEST(StopMatcherTest, NothingOfAStopOverFourTokensLeaks) {
  const Outcome outcome = Feed({"</story>"}, {"The end.<", "/st", "or", "y> more"});
  EXPECT_EQ(outcome.stop, 0);
  EXPECT_THAT(outcome.deltas, ElementsAre("The end.", "", "", ""));
  EXPECT_EQ(outcome.tail, "");
}

TEST(StopMatcherTest, ABeginningThatDoesNotGoOnIsReleased) {
  const Outcome outcome = Feed({"</story>"}, {"a </", "sto", "ne> b"});
  EXPECT_EQ(outcome.stop, -1);
  EXPECT_THAT(outcome.deltas, ElementsAre("a ", "", "</stone> b"));
}

TEST(StopMatcherTest, FlushReturnsTheWholeHeldTail) {
  const Outcome outcome = Feed({"\n\nQ:"}, {"answer", "\n", "\nQ"});
  EXPECT_EQ(outcome.stop, -1);
  EXPECT_THAT(outcome.deltas, ElementsAre("answer", "", ""));
  EXPECT_EQ(outcome.tail, "\n\nQ");
}

TEST(StopMatcherTest, OverlappingBeginningsAreNotLost) {
  EXPECT_THAT(Feed({"aab"}, {"aaab"}).deltas, ElementsAre("a"));
  const Outcome outcome = Feed({"aab"}, {"a", "a", "a", "b"});
  EXPECT_EQ(outcome.stop, 0);
  EXPECT_THAT(outcome.deltas, ElementsAre("", "", "a", ""));
  const Outcome longer = Feed({"abababc"}, {"abab", "ababa", "bc"});
  EXPECT_EQ(longer.stop, 0);
  EXPECT_THAT(longer.deltas, ElementsAre("", "abab", ""));
}

TEST(StopMatcherTest, KoreanTextIsCutBetweenCharacters) {
  const Outcome found = Feed({"끝이다"}, {"이야기 ", "끝", "이", "다. 또"});
  EXPECT_EQ(found.stop, 0);
  EXPECT_THAT(found.deltas, ElementsAre("이야기 ", "", "", ""));
  // 끔 begins with the same two bytes as 끝.
  const Outcome missed = Feed({"끝이다"}, {"끔", "끝", "이", "야"});
  EXPECT_EQ(missed.stop, -1);
  EXPECT_THAT(missed.deltas, ElementsAre("끔", "", "", "끝이야"));
}

TEST(StopMatcherTest, OfSeveralStopsTheEarliestWins) {
  const Outcome outcome = Feed({"three", "two"}, {"one two three"});
  EXPECT_EQ(outcome.stop, 1);
  EXPECT_THAT(outcome.deltas, ElementsAre("one "));
}

TEST(StopMatcherTest, OfStopsThatBeginTogetherTheLongestWins) {
  EXPECT_EQ(Feed({"ab", "abc", "a"}, {"xabc"}).stop, 1);
  EXPECT_EQ(Feed({"ab", "abc"}, {"xab", "c"}).stop, 0);  // it was complete first
  EXPECT_EQ(Feed({"same", "same"}, {"same"}).stop, 0);
}

TEST(StopMatcherTest, HoldsTheLongestBeginningOfAnyStop) {
  const Outcome outcome = Feed({"bcx", "abcd"}, {"abc", "y"});
  EXPECT_EQ(outcome.stop, -1);
  EXPECT_THAT(outcome.deltas, ElementsAre("", "abcy"));
  // The held text is a beginning of the longer stop; a shorter one ends in it.
  const Outcome shorter = Feed({"bcx", "abcd"}, {"abc", "x"});
  EXPECT_EQ(shorter.stop, 0);
  EXPECT_THAT(shorter.deltas, ElementsAre("", "a"));
}

TEST(StopMatcherTest, UnarmedTextIsNotMatched) {
  const Outcome outcome = Feed({"END"}, {"x END", " y END z"}, 1);
  EXPECT_EQ(outcome.stop, 0);
  EXPECT_THAT(outcome.deltas, ElementsAre("x END", " y "));
}

TEST(StopMatcherTest, AMatchMayBeginInUnarmedText) {
  const Outcome outcome = Feed({"END"}, {"x EN", "D y"}, 1);
  EXPECT_EQ(outcome.stop, 0);
  EXPECT_THAT(outcome.deltas, ElementsAre("x ", ""));
}

TEST(StopMatcherTest, AMatchThatEndedInHeldUnarmedTextStaysUnmatched) {
  // "ab" was complete while unarmed, and is held only as part of "aabc".
  const Outcome outcome = Feed({"ab", "aabc"}, {"aab", "d"}, 1);
  EXPECT_EQ(outcome.stop, -1);
  EXPECT_THAT(outcome.deltas, ElementsAre("", "aabd"));
}

TEST(StopMatcherTest, AnEmptyTokenChangesNothing) {
  const Outcome outcome = Feed({"END"}, {"x EN", "", "D"});
  EXPECT_EQ(outcome.stop, 0);
  EXPECT_THAT(outcome.deltas, ElementsAre("x ", "", ""));
}

TEST(StopMatcherTest, OneByteStops) {
  const Outcome outcome = Feed({"\n"}, {"line", "\nnext"});
  EXPECT_EQ(outcome.stop, 0);
  EXPECT_THAT(outcome.deltas, ElementsAre("line", ""));
}

// However a text is cut into tokens: what went out and the held tail are the text before the match.
TEST(StopMatcherTest, EveryCutGivesTheSameTextWithOneStop) {
  const std::string text = "abaabababcabc";
  for (const std::string stop : {"ababc", "abc", "aab", "zz", "c"}) {
    const size_t at = text.find(stop);
    const std::string expected = text.substr(0, at);
    for (unsigned cuts = 0; cuts < 1u << (text.size() - 1); ++cuts) {
      std::vector<std::string_view> tokens;
      size_t begin = 0;
      for (size_t i = 1; i <= text.size(); ++i) {
        if (i < text.size() && (cuts >> (i - 1) & 1) == 0) continue;
        tokens.push_back(std::string_view(text).substr(begin, i - begin));
        begin = i;
      }
      const Outcome outcome = Feed({stop}, tokens);
      std::string joined;
      for (const std::string& delta : outcome.deltas) joined += delta;
      ASSERT_EQ(joined + outcome.tail, expected) << stop << " cut " << cuts;
      ASSERT_EQ(outcome.stop, at == std::string::npos ? -1 : 0);
    }
  }
}

}  // namespace
}  // namespace luna::sample
