// How generations end while their next step is in flight: by themselves, by their callers, with the
// engine.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/ahead.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::EngineBench;
using fakes::Reader;
using testing::IsEmpty;

// All that a caller and the ledger are told of a turn, and of the next one.
struct Told {
  Answer answer, next;
  Load load;
  SessionMemory memory;
  int64_t computed_tokens = 0;
};

// The answer's token i is i-th of the alphabet, but `last` where i is `length` - 1.
Told Tell(EngineBench::Options options, Request request, int length, TokenId last) {
  EngineBench bench(std::move(options));
  const SessionInfo session = *bench.CreateSession();
  request.session_key = session.key;
  const size_t prompt = request.input.tokens.size();
  bench.backend().set_script([=](std::span<const TokenId> history, TokenId) {
    const int said = static_cast<int>(history.size() - prompt);
    return said == length - 1 ? last : TokenId{'a' + said % 26};
  });
  Told told;
  told.answer = bench.Run(request);
  EXPECT_EQ(bench.backend().in_flight(), 0);
  told.load = bench.snapshot().load;
  told.memory = bench.MemoryOf(session.key);
  told.computed_tokens = bench.backend().computed_tokens();
  bench.backend().set_script({});
  told.next = bench.Run(Ask(" and then?", 7, session.key));
  return told;
}

void ExpectSameTold(const Told& ahead, const Told& alone) {
  ExpectSameAnswer(ahead.answer, alone.answer);
  ExpectSameAnswer(ahead.next, alone.next);
  EXPECT_EQ(ahead.load.total_tokens, alone.load.total_tokens);
  EXPECT_EQ(ahead.load.total_prompt_tokens, alone.load.total_prompt_tokens);
  EXPECT_EQ(ahead.load.finished, alone.load.finished);
  EXPECT_EQ(ahead.memory.charged_bytes, alone.memory.charged_bytes);
  EXPECT_EQ(ahead.memory.used_bytes, alone.memory.used_bytes);
  EXPECT_EQ(ahead.memory.tokens, alone.memory.tokens);
  EXPECT_EQ(ahead.memory.generated_tokens, alone.memory.generated_tokens);
  EXPECT_EQ(ahead.memory.recomputed_tokens, alone.memory.recomputed_tokens);
}

// Every ending, and every place in a block for it.
class EndingTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  // `superfluous`: tokens that are computed for nobody. Windowed layers give a block back a step
  // later, so that there it is only at least as many.
  void ExpectSame(const Request& request, int length, TokenId last, int superfluous) {
    SCOPED_TRACE(absl::StrCat(request.input.tokens.size(), " + ", length));
    const Told ahead = Tell(OfDepth(2, GetParam()), request, length, last);
    const Told alone = Tell(OfDepth(1, GetParam()), request, length, last);
    ExpectSameTold(ahead, alone);
    EXPECT_EQ(ahead.answer.tokens.size(), static_cast<size_t>(length));
    EXPECT_EQ(ahead.computed_tokens, alone.computed_tokens + superfluous);
    const uint32_t peak = ahead.answer.finished->usage.peak_blocks;
    if (GetParam().back() == 0) {
      EXPECT_EQ(peak, alone.answer.finished->usage.peak_blocks);
    } else {
      EXPECT_GE(peak, alone.answer.finished->usage.peak_blocks);
    }
  }

  template <typename Change>
  void ForEachPlace(TokenId last, int superfluous, Change change) {
    for (const std::string_view prompt : {"?", "ab?", "abcd?"}) {
      for (int length = 1; length <= 9; ++length) {
        Request request = Ask(prompt, 40);
        request.num_logprobs = 2;
        change(request, length);
        ExpectSame(request, length, last, superfluous);
      }
    }
  }
};

TEST_P(EndingTest, ByAnEndToken) {
  ForEachPlace(fakes::kEnd, 1, [](Request&, int) {});
}

TEST_P(EndingTest, ByAStopId) {
  ForEachPlace('!', 1, [](Request& request, int) { request.stopping.stop_ids = {'!'}; });
}

TEST_P(EndingTest, ByAStopString) {
  ForEachPlace('!', 1, [](Request& request, int length) {
    request.stopping.stop = {length > 1 ? absl::StrCat(std::string(1, 'a' + length - 2), "!")
                                        : "!"};
  });
}

// It is certain beforehand, so that nothing is superfluous.
TEST_P(EndingTest, ByMaxTokensToTheToken) {
  ForEachPlace('!', 0, [](Request& request, int length) { request.stopping.max_tokens = length; });
}

TEST_P(EndingTest, ByMaxTokensAndAStopAtOnce) {
  ForEachPlace('!', 0, [](Request& request, int length) {
    request.stopping.max_tokens = length;
    request.stopping.stop_ids = {'!'};
  });
}

// A fourth of all words ends an answer.
TEST_P(EndingTest, NotBeforeMinTokens) {
  size_t shortest = 40;
  for (int i = 0; i < 20; ++i) {
    const size_t least = i % 4;
    Request request = Ask(absl::StrCat("student ", i), 40);
    for (int word = 0; word < 256; word += 4) request.stopping.stop_ids.push_back(word);
    request.stopping.min_tokens = static_cast<int64_t>(least);
    const auto tell = [&](int depth) {
      EngineBench bench(OfDepth(depth, GetParam()));
      return bench.Run(request);
    };
    const Answer ahead = tell(2);
    ExpectSameAnswer(ahead, tell(1));
    EXPECT_GT(ahead.tokens.size(), least);
    shortest = std::min(shortest, ahead.tokens.size() - least);
  }
  EXPECT_EQ(shortest, 1u);
}

INSTANTIATE_TEST_SUITE_P(Layouts, EndingTest,
                         testing::Values(std::vector<int>{0, 0}, std::vector<int>{0, 5}));

TEST(AheadTest, TheRoomOfASuperfluousRowIsFreeInTheTickOfTheEnd) {
  EngineBench bench(OfDepth(2));
  const SessionInfo session = *bench.CreateSession();
  bench.backend().set_script([](std::span<const TokenId> history, TokenId) {
    return history.size() == 8 ? fakes::kEnd : TokenId{'a'};
  });
  Reader* reader = bench.Submit(Ask("abc", -1, session.key));
  bench.Tick(5);
  EXPECT_EQ(bench.MemoryOf(session.key).charged_bytes, 2 * bench.block_bytes());
  EXPECT_EQ(bench.MemoryOf(session.key).peak_bytes, 2 * bench.block_bytes());
  bench.Tick();
  EXPECT_TRUE(reader->answer.ended());
  EXPECT_EQ(bench.backend().in_flight(), 1);  // the ninth token, in a third block
  EXPECT_EQ(bench.MemoryOf(session.key).peak_bytes, 3 * bench.block_bytes());
  EXPECT_EQ(bench.MemoryOf(session.key).charged_bytes, 2 * bench.block_bytes());
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 2);
  EXPECT_EQ(bench.MemoryOf(session.key).used_bytes, 8 * bench.layout().token_bytes());
  EXPECT_FALSE(bench.engine().Idle());
  EXPECT_TRUE(bench.engine().Tick());
  EXPECT_EQ(bench.backend().in_flight(), 0);
  EXPECT_TRUE(bench.engine().Idle());
  EXPECT_FALSE(bench.engine().Tick());
  EXPECT_EQ(bench.GetSession(session.key)->tokens, 9u);
}

// A block that a superfluous row is to write into may have its next owner already.
TEST(AheadTest, WhereEveryBlockIsTakenAgainAtOnceAllSayTheSame) {
  EngineBench::Options options = OfDepth(2);
  options.num_blocks = 18;
  EngineBench bench(options);
  std::vector<Request> requests;
  std::vector<Reader*> readers;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(Ask(absl::StrCat("student ", i), 3 + i % 5));
    requests.back().stopping.stop = {"e", "o", "t"};
    readers.push_back(bench.Submit(requests.back()));
  }
  bench.RunToEnd();
  EXPECT_GT(bench.backend().steps_ahead(), 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    EngineBench alone(OfDepth(1));
    ExpectSameWords(readers[i]->answer, alone.Run(requests[i]));
  }
}

TEST(AheadTest, ADisconnectFreesItsBlocksAtOnceAndItsRetrySaysTheSame) {
  EngineBench bench(OfDepth(2));
  const SessionInfo session = *bench.CreateSession();
  bench.Run(Ask("hello", 3, session.key));
  const int64_t charged = bench.MemoryOf(session.key).charged_bytes;
  Reader* stays = bench.Submit(Endless("xyz"));
  Reader* gone = bench.Submit(Endless("abc", session.key));
  bench.Tick(6);
  ASSERT_EQ(bench.backend().in_flight(), 1);
  const std::vector<TokenId> said = gone->answer.tokens;
  gone->stream->RequestCancel();
  bench.Tick();
  EXPECT_EQ(gone->answer.finished->reason, FinishReason::kCancelled);
  EXPECT_EQ(gone->answer.tokens, said);
  EXPECT_EQ(gone->answer.finished->turn, 1u);
  EXPECT_EQ(bench.MemoryOf(session.key).charged_bytes, charged);
  EXPECT_EQ(bench.MemoryOf(session.key).used_bytes, 8 * bench.layout().token_bytes());
  const uint64_t total = bench.snapshot().load.total_tokens;
  bench.Tick();
  EXPECT_EQ(bench.snapshot().load.total_tokens, total + 1);  // the other's alone
  EXPECT_FALSE(stays->answer.ended());
  stays->stream->RequestCancel();
  const Answer retry = bench.Run(Ask("abc", static_cast<int64_t>(said.size()), session.key));
  EXPECT_EQ(retry.tokens, said);
}

TEST(AheadTest, ADeadlineEndsAGenerationWhoseStepIsInFlight) {
  EngineBench bench(OfDepth(2));
  Request request = Endless("abc");
  request.deadline = bench.clock().Now() + absl::Milliseconds(5);
  Reader* reader = bench.Submit(request);
  bench.Tick(4);
  ASSERT_EQ(bench.backend().in_flight(), 1);
  bench.Tick();
  EXPECT_EQ(reader->answer.finished->reason, FinishReason::kDeadline);
  EXPECT_EQ(reader->answer.tokens.size(), 4u);
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 0);
  EXPECT_EQ(bench.backend().in_flight(), 0);
}

TEST(AheadTest, AnAbortKeepsWhatWasInFlightToo) {
  EngineBench bench(OfDepth(2));
  const SessionInfo session = *bench.CreateSession();
  Reader* reader = bench.Submit(Endless("abc", session.key));
  bench.Tick(4);
  ASSERT_EQ(bench.backend().in_flight(), 1);
  EXPECT_TRUE(*bench.Abort(reader->answer.accepted->generation_id, /*keep_partial=*/true));
  EXPECT_EQ(reader->answer.finished->reason, FinishReason::kCancelled);
  EXPECT_EQ(reader->answer.tokens, WordsAlone(Endless("abc"), 5));
  EXPECT_EQ(reader->answer.finished->usage.completion_tokens, 5u);
  EXPECT_EQ(bench.GetSession(session.key)->tokens, 3u + 5u);
  EXPECT_EQ(bench.GetSession(session.key)->last_text, reader->answer.text);
  EXPECT_EQ(bench.backend().in_flight(), 0);
}

TEST(AheadTest, DrainingFinishesWhatIsInFlight) {
  EngineBench bench(OfDepth(2));
  Request request = Ask("abc", 20);
  request.stopping.ignore_eos = true;
  Reader* live = bench.Submit(request);
  bench.Tick(3);
  ASSERT_EQ(bench.backend().in_flight(), 1);
  EXPECT_EQ(*bench.Drain(), 1u);
  Reader* fresh = bench.Submit(request);
  bench.RunToEnd();
  EXPECT_EQ(fresh->answer.rejected->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(live->answer.tokens, WordsAlone(request, 20));
  EXPECT_EQ(live->answer.finished->reason, FinishReason::kLength);
}

TEST(AheadTest, StopCollectsWhatIsInFlightAndEndsEverybodyOnce) {
  fakes::FakeBackend backend(128);
  backend.set_depth(2);
  const kv::KvLayout layout = kv::MakeLayout(std::vector<int>{0}, 4, 16);
  ASSERT_TRUE(backend.AllocateKv(layout, 50).ok());
  fakes::FakeTokenizer tokenizer;
  FakeClock clock;
  EngineOptions options;
  options.layout = layout;
  options.num_blocks = 50;
  Engine engine(options, &backend, &tokenizer, &clock);
  auto endless = std::make_shared<TokenStream>(), ends = std::make_shared<TokenStream>();
  engine.Submit(Endless("abc"), endless);
  engine.Submit(Ask("abc", 3), ends);
  engine.Tick();
  engine.Tick();
  ASSERT_EQ(backend.in_flight(), 1);
  engine.Stop();
  EXPECT_EQ(backend.in_flight(), 0);
  TokenStream::Taken taken;
  endless->TakeAll(taken);
  EXPECT_EQ(taken.delta.tokens.size(), 3u);
  ASSERT_TRUE(taken.finished.has_value());
  EXPECT_EQ(taken.finished->error.code(), absl::StatusCode::kUnavailable);
  ends->TakeAll(taken);  // its last token was on its way
  EXPECT_EQ(taken.delta.tokens.size(), 3u);
  ASSERT_TRUE(taken.finished.has_value());
  EXPECT_EQ(taken.finished->reason, FinishReason::kLength);
  EXPECT_THAT(backend.faults(), IsEmpty());
}

}  // namespace
}  // namespace luna::engine
