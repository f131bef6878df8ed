// One generation from its request to its end.
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::Bytes;
using fakes::EngineBench;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

// Says `text` after any prompt of `prompt_tokens` tokens, then ends.
fakes::FakeBackend::Script Say(std::string text, size_t prompt_tokens) {
  return [text, prompt_tokens](std::span<const TokenId> history, TokenId) {
    const size_t said = history.size() - prompt_tokens;
    return said < text.size() ? TokenId{static_cast<unsigned char>(text[said])} : fakes::kEnd;
  };
}

TEST(GenerateTest, AnAnswerEndsAtItsEndToken) {
  EngineBench bench;
  bench.backend().set_script(Say("hello", 4));
  const Answer answer = bench.Run(Ask("abcd", -1));
  ASSERT_TRUE(answer.accepted.has_value());
  EXPECT_EQ(answer.text, "hello");
  ASSERT_TRUE(answer.finished.has_value());
  EXPECT_EQ(answer.finished->reason, FinishReason::kStop);
  EXPECT_EQ(answer.finished->stop_id, fakes::kEnd);
  EXPECT_THAT(answer.tokens, ElementsAre('h', 'e', 'l', 'l', 'o', fakes::kEnd));
  EXPECT_EQ(answer.finished->usage.prompt_tokens, 4u);
  EXPECT_EQ(answer.finished->usage.completion_tokens, 6u);
  EXPECT_EQ(answer.prompt->tokens, 4u);
  EXPECT_EQ(answer.prompt->cached_tokens, 0u);
}

// l#4036, l PR#14937: characters split over tokens.
TEST(GenerateTest, EveryDeltaIsWholeCharacters) {
  EngineBench bench;
  const std::string text = "안녕, 토끼 🐇!";
  bench.backend().set_script(Say(text, 2));
  fakes::Reader* reader = bench.Submit(Ask("ab", -1));
  std::string seen;
  while (!reader->answer.ended()) {
    bench.Tick();
    const std::string& now = reader->answer.text;
    ASSERT_EQ(text.compare(0, now.size(), now), 0) << now;
    // A character begins or nothing is left: no piece was cut inside one.
    EXPECT_TRUE(now.size() == text.size() || (text[now.size()] & 0xC0) != 0x80);
  }
  EXPECT_EQ(reader->answer.text, text);
}

TEST(GenerateTest, ALimitInTheMiddleOfACharacterEndsWithAReplacement) {
  EngineBench bench;
  bench.backend().set_script(Say("한", 2));
  const Answer answer = bench.Run(Ask("ab", 1));
  EXPECT_EQ(answer.finished->reason, FinishReason::kLength);
  EXPECT_EQ(answer.finished->limit, Limit::kMaxTokens);
  EXPECT_EQ(answer.text, "\uFFFD");
  bench.backend().set_script(Say("fine", 2));
  EXPECT_EQ(bench.Run(Ask("ab", -1)).text, "fine");
}

// v#3574, t#1254: the beginning of a stop string reached the client.
TEST(GenerateTest, NoPartOfAStopStringLeaks) {
  EngineBench bench;
  bench.backend().set_script(Say("one STOP two", 2));
  Request request = Ask("ab", -1);
  request.stopping.stop = {"nothing", "STOP"};
  fakes::Reader* reader = bench.Submit(request);
  while (!reader->answer.ended()) {
    bench.Tick();
    EXPECT_EQ(std::string("one ").compare(0, reader->answer.text.size(), reader->answer.text), 0);
  }
  EXPECT_EQ(reader->answer.text, "one ");
  EXPECT_EQ(reader->answer.finished->reason, FinishReason::kStop);
  EXPECT_EQ(reader->answer.finished->stop, "STOP");
  EXPECT_FALSE(reader->answer.finished->stop_id.has_value());
  // The ids that spelled it were sampled, so they are there and count.
  EXPECT_THAT(reader->answer.tokens, ElementsAreArray(Bytes("one STOP")));
  EXPECT_EQ(reader->answer.finished->usage.completion_tokens, 8u);
}

// l PR#9867: text held back for a stop that never came was lost.
TEST(GenerateTest, TheTailThatWasHeldBackArrives) {
  for (const int max_tokens : {-1, 7}) {
    EngineBench bench;
    bench.backend().set_script(Say("say STO", 2));
    Request request = Ask("ab", max_tokens);
    request.stopping.stop = {"STOP"};
    EXPECT_EQ(bench.Run(request).text, "say STO");
  }
}

TEST(GenerateTest, TheTailArrivesOnCancelToo) {
  EngineBench bench;
  bench.backend().set_script(Say("STOOOOOOOO", 2));
  Request request = Ask("ab", -1);
  request.stopping.stop = {"STOOOOOOOOOOOOOOOOOOO"};
  fakes::Reader* reader = bench.Submit(request);
  bench.Tick(4);
  reader->stream->RequestCancel();
  bench.Tick();
  EXPECT_EQ(reader->answer.text, "STOO");
}

// v#45591, v#4180: only one of several end tokens was honoured.
TEST(GenerateTest, AnyEndTokenEndsAndItsTextIsWithheld) {
  for (const TokenId end : {fakes::kEnd, fakes::kOtherEnd, TokenId{'.'}}) {
    EngineBench bench;
    bench.backend().set_script([end](std::span<const TokenId> history, TokenId) {
      return history.size() < 5 ? 'x' : end;
    });
    Request request = Ask("ab", -1);
    request.stopping.stop_ids = {'.'};
    const Answer answer = bench.Run(request);
    EXPECT_EQ(answer.finished->reason, FinishReason::kStop);
    EXPECT_EQ(answer.finished->stop_id, end);
    EXPECT_EQ(answer.text, "xxx");
    EXPECT_EQ(answer.tokens.back(), end);
  }
}

TEST(GenerateTest, IgnoreEosGoesOnToTheLimit) {
  EngineBench bench;
  bench.backend().set_script(Say("hi", 2));
  Request request = Ask("ab", 6);
  request.stopping.ignore_eos = true;
  const Answer answer = bench.Run(request);
  EXPECT_EQ(answer.finished->reason, FinishReason::kLength);
  EXPECT_THAT(answer.tokens,
              ElementsAre('h', 'i', fakes::kEnd, fakes::kEnd, fakes::kEnd, fakes::kEnd));
  EXPECT_EQ(answer.text, "hi");
}

TEST(GenerateTest, MinTokensMasksEndTokensAndStopIdsAndMakesStopStringsWait) {
  EngineBench bench;
  // The mask is what the backend is told; the fake's own choice honours it.
  Request request = Ask("ab", 40);
  request.stopping.min_tokens = 30;
  request.stopping.stop_ids = {'a', 'b', 'c'};
  const Answer answer = bench.Run(request);
  for (size_t i = 0; i < 30 && i < answer.tokens.size(); ++i) {
    EXPECT_THAT(answer.tokens[i],
                testing::AllOf(testing::Ne(fakes::kEnd), testing::Ne('a'), testing::Ne('b')));
  }
  EXPECT_GE(answer.tokens.size(), 30u);

  bench.backend().set_script(Say("aaaaaaaaaa", 2));
  Request stop = Ask("ab", -1);
  stop.stopping.min_tokens = 4;
  stop.stopping.stop = {"aa"};
  EXPECT_EQ(bench.Run(stop).text, "aa");  // found in the text that the fourth token ends
}

TEST(GenerateTest, OneLogprobForEachTokenIfAskedFor) {
  EngineBench bench;
  Request request = Ask("ab", 5);
  request.stopping.ignore_eos = true;
  EXPECT_THAT(bench.Run(request).logprobs, IsEmpty());
  request.num_logprobs = 2;
  const Answer answer = bench.Run(request);
  ASSERT_EQ(answer.logprobs.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(answer.logprobs[i].token, answer.tokens[i]);
    EXPECT_LE(answer.logprobs[i].logprob, 0.0f);
    EXPECT_EQ(answer.logprobs[i].top.size(), 2u);
  }
}

// v#8625: wrong token counts in a stream.
TEST(GenerateTest, UsageIsTheSumOfTheDeltasWithChunkedPrefillToo) {
  EngineBench::Options options;
  options.engine.max_batch_tokens = 7;
  EngineBench bench(options);
  Request request = Ask(std::string(60, 'p'), 12);
  request.stopping.ignore_eos = true;
  const Answer answer = bench.Run(request);
  EXPECT_EQ(answer.finished->usage.prompt_tokens, 60u);
  EXPECT_EQ(answer.finished->usage.completion_tokens, answer.tokens.size());
  EXPECT_EQ(answer.tokens.size(), 12u);
  EXPECT_EQ(answer.finished->usage.peak_blocks, 18u);  // 71 computed tokens in blocks of 4
}

TEST(GenerateTest, TimesAreMeasuredFromArrival) {
  EngineBench bench;
  Request request = Ask("abcd", 3);
  request.stopping.ignore_eos = true;
  request.arrival = bench.clock().Now() - absl::Milliseconds(10);
  const Answer answer = bench.Run(request);
  const Usage& usage = answer.finished->usage;
  EXPECT_DOUBLE_EQ(usage.queue_ms, 11);
  EXPECT_DOUBLE_EQ(usage.ttft_ms, 11);
  EXPECT_DOUBLE_EQ(usage.total_ms, 13);
}

TEST(GenerateTest, AcceptedTellsTheEffectiveParametersAndTheSeed) {
  EngineBench bench;
  Request request = Ask("abcd", -1);
  request.sampling.top_k = 5;
  request.sampling.seed = 77;
  const Answer answer = bench.Run(request);
  EXPECT_EQ(answer.accepted->seed, 77u);
  EXPECT_EQ(answer.accepted->sampling.top_k, 5);
  EXPECT_EQ(answer.accepted->stopping.max_tokens, 128 - 4);
  EXPECT_EQ(answer.accepted->generation_id.size(), 32u);
  EXPECT_EQ(answer.accepted->queue_position, 0u);
}

TEST(GenerateTest, UnsetSeedsDifferAndComeBackWithTheServersSeed) {
  std::vector<std::vector<uint64_t>> runs;
  for (const uint64_t server_seed : {1, 1, 2}) {
    EngineBench::Options options;
    options.engine.seed = server_seed;
    EngineBench bench(options);
    std::vector<uint64_t> seeds;
    for (int i = 0; i < 5; ++i) seeds.push_back(bench.Run(Ask("ab", 1)).accepted->seed);
    runs.push_back(seeds);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
  EXPECT_THAT(std::set<uint64_t>(runs[0].begin(), runs[0].end()), testing::SizeIs(5));
}

TEST(GenerateTest, TheSameSeedGivesTheSameWordsAndAnotherOthers) {
  EngineBench bench;
  Request request = Ask("once upon a time", 30);
  request.sampling.temperature = 1.0f;
  request.sampling.seed = 5;
  const Answer first = bench.Run(request), again = bench.Run(request);
  request.sampling.seed = 6;
  const Answer other = bench.Run(request);
  EXPECT_EQ(first.tokens, again.tokens);
  EXPECT_NE(first.tokens, other.tokens);
}

TEST(GenerateTest, AModelMayHaveMoreRowsThanItsTokenizerHasWords) {
  EngineBench bench;
  bench.backend().set_vocab_size(fakes::kVocabSize + 10);
  bench.backend().set_script(
      [](std::span<const TokenId>, TokenId) { return fakes::kVocabSize + 3; });
  const Answer answer = bench.Run(Ask("ab", 3));
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(answer.tokens.size(), 3u);
}

TEST(GenerateTest, TheWriterIsWokenOncePerTickThatBroughtSomething) {
  EngineBench bench;
  Request request = Ask("ab", 4);
  request.stopping.ignore_eos = true;
  bench.Submit(request);
  bench.Submit(request);
  bench.RunToEnd();
  EXPECT_EQ(bench.published(), 4);
}

}  // namespace
}  // namespace luna::engine
