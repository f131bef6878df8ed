#include "core/engine/token_stream.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TokenStreamTest, EachThingIsHandedOutOnce) {
  TokenStream stream;
  stream.Accept({.generation_id = "g", .sampling = {}, .stopping = {}});
  stream.PromptComputed({.tokens = 3});
  stream.Append("he", 1, nullptr);
  stream.Append("llo", 2, nullptr);
  TokenStream::Taken taken;
  stream.TakeAll(taken);
  EXPECT_EQ(taken.accepted->generation_id, "g");
  EXPECT_EQ(taken.prompt->tokens, 3u);
  EXPECT_EQ(taken.delta.text, "hello");
  EXPECT_THAT(taken.delta.tokens, ElementsAre(1, 2));
  stream.Finish("!", {.reason = FinishReason::kStop});
  stream.TakeAll(taken);
  EXPECT_FALSE(taken.accepted.has_value());
  EXPECT_FALSE(taken.prompt.has_value());
  EXPECT_EQ(taken.delta.text, "!");
  EXPECT_THAT(taken.delta.tokens, IsEmpty());
  EXPECT_TRUE(taken.finished.has_value());
  stream.TakeAll(taken);
  EXPECT_TRUE(taken.delta.empty());
  EXPECT_FALSE(taken.finished.has_value());
}

TEST(TokenStreamTest, TheReaderIsWokenOnceBetweenTwoTakes) {
  int woken = 0;
  TokenStream stream([&] { ++woken; });
  stream.Append("a", 1, nullptr);
  stream.Append("b", 2, nullptr);
  EXPECT_EQ(woken, 1);
  TokenStream::Taken taken;
  stream.TakeAll(taken);
  EXPECT_EQ(woken, 1);
  stream.Append("c", 3, nullptr);
  EXPECT_EQ(woken, 2);
}

TEST(TokenStreamTest, TheFirstCancelCounts) {
  TokenStream stream;
  EXPECT_FALSE(stream.cancel_requested());
  stream.RequestCancel();
  EXPECT_TRUE(stream.cancel_requested());
}

TEST(TokenStreamTest, NothingIsLostBetweenTwoThreads) {
  TokenStream stream;
  std::thread writer([&] {
    for (int i = 0; i < 2000; ++i) stream.Append("x", i, nullptr);
    stream.Finish("", {});
  });
  std::vector<TokenId> tokens;
  TokenStream::Taken taken;
  do {
    stream.TakeAll(taken);
    tokens.insert(tokens.end(), taken.delta.tokens.begin(), taken.delta.tokens.end());
  } while (!taken.finished.has_value());
  writer.join();
  ASSERT_EQ(tokens.size(), 2000u);
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(tokens[i], i);
}

}  // namespace
}  // namespace luna::engine
