// Sessions that begin alike: what is computed once, who holds it, who may not.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::EngineBench;
using fakes::Reader;

const std::string kLesson(42, 'l');  // ten and a half blocks

Request AskAfterLesson(const std::string& question, int64_t max_tokens,
                       const std::string& caller = "class", const std::string& session = "") {
  Request request = Ask(kLesson + question, max_tokens, session);
  request.caller = caller;
  request.stopping.ignore_eos = true;
  return request;
}

EngineBench::Options Sharing(PrefixSharing sharing, int hash_bits = 64) {
  EngineBench::Options options;
  options.num_blocks = 500;
  options.engine.prefix_sharing = sharing;
  options.engine.prefix_hash_bits = hash_bits;
  return options;
}

TEST(SharingTest, ThirtyThatArriveTogetherComputeThePromptOnce) {
  EngineBench bench(Sharing(PrefixSharing::kPeer));
  std::vector<Reader*> readers;
  for (int i = 0; i < 30; ++i) readers.push_back(bench.Submit(AskAfterLesson("q", 4)));
  bench.RunToEnd();
  // 43 tokens once, the last one for each of the others, and what they say.
  EXPECT_EQ(bench.backend().computed_tokens(), 43 + 29 * 1 + 30 * 3);
  for (int i = 1; i < 30; ++i) {
    EXPECT_EQ(readers[i]->answer.finished->usage.cached_tokens, 42u);
    EXPECT_EQ(readers[i]->answer.tokens, readers[0]->answer.tokens);
  }
}

TEST(SharingTest, WhoComesLaterFindsWhatNobodyHoldsAnyMore) {
  EngineBench bench(Sharing(PrefixSharing::kPeer));
  bench.Run(AskAfterLesson("first", 3));
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 0);
  EXPECT_EQ(bench.snapshot().pool.cached_blocks, 12);  // 49 tokens computed
  const Answer second = bench.Run(AskAfterLesson("second", 3));
  EXPECT_EQ(second.finished->usage.cached_tokens, 40u);
  EXPECT_EQ(second.prompt->cached_tokens, 40u);
}

TEST(SharingTest, TheLedgerSaysWhoHoldsWhat) {
  EngineBench bench(Sharing(PrefixSharing::kServer));
  const SessionInfo anna = *bench.CreateSession(), ben = *bench.CreateSession();
  bench.Run(AskAfterLesson("anna", 3, "a", anna.key));  // 48 computed tokens
  bench.Run(AskAfterLesson("ben", 3, "b", ben.key));    // 47
  const SessionMemory of_anna = bench.MemoryOf(anna.key), of_ben = bench.MemoryOf(ben.key);
  EXPECT_EQ(of_anna.shared_blocks, 10);
  EXPECT_EQ(of_anna.private_blocks, 2);
  EXPECT_EQ(of_ben.shared_blocks, 10);
  EXPECT_EQ(of_anna.charged_bytes, 12 * bench.block_bytes());  // in full
  EXPECT_EQ(of_anna.split_bytes, 7 * bench.block_bytes());
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, 14);
  EXPECT_EQ(bench.snapshot().pool.shared_blocks, 10);
  // Who leaves takes nothing from the other.
  ASSERT_TRUE(bench.CloseSession(anna.key).ok());
  EXPECT_EQ(bench.MemoryOf(ben.key).private_blocks, 12);
}

// Who has no row in a step whose copies failed is not in it, and gets its copy before the next.
TEST(SharingTest, ACopyThatFailsIsMadeBeforeTheNextStep) {
  const Request requests[] = {AskAfterLesson("later", 6), AskAfterLesson("too", 6)};
  EngineBench alone(Sharing(PrefixSharing::kPeer));
  std::vector<std::vector<TokenId>> expected;
  for (const Request& request : requests) expected.push_back(alone.Run(request).tokens);

  for (const int copies : {0, 1}) {  // of the two
    EngineBench::Options options = Sharing(PrefixSharing::kPeer);
    options.engine.max_batch_tokens = 8;
    EngineBench bench(options);
    Reader* talks = bench.Submit(AskAfterLesson("first", 60));
    while (talks->answer.tokens.empty()) bench.Tick();
    Reader* fills_the_step = bench.Submit(Ask(std::string(40, 'z'), 4));
    std::vector<Reader*> later;
    for (const Request& request : requests) later.push_back(bench.Submit(request));
    const absl::Status broken = absl::InternalError("no copy");
    bench.backend().FailCopyAfter(copies, broken);
    bench.RunToEnd();
    EXPECT_EQ(talks->answer.finished->error, broken);
    EXPECT_EQ(fills_the_step->answer.finished->error, broken);
    // The step has room for one of the two.
    EXPECT_EQ(later[1]->answer.finished->error, broken);
    EXPECT_EQ(later[0]->answer.tokens, expected[0]);
    EXPECT_EQ(later[0]->answer.finished->usage.cached_tokens, 42u);
  }
}

// Shared blocks go to their holders in equal parts, the bytes that are left to the older sessions.
TEST(SharingTest, ThePartsOfThreeAddUpToTheByte) {
  EngineBench::Options options = Sharing(PrefixSharing::kServer);
  options.block_tokens = 5;  // 160 bytes a block
  EngineBench bench(options);
  std::vector<SessionInfo> sessions;
  for (int i = 0; i < 3; ++i) {
    sessions.push_back(*bench.CreateSession());
    bench.Run(AskAfterLesson(std::string(4, static_cast<char>('a' + i)), 1, "a",
                             sessions.back().key));  // 46 tokens
  }
  const int64_t shared = bench.MemoryOf(sessions[0].key).shared_blocks;
  ASSERT_EQ(shared, 8);
  ASSERT_EQ(bench.block_bytes() % 3, 1);
  const int64_t own = 2 * bench.block_bytes();
  EXPECT_EQ(bench.MemoryOf(sessions[0].key).split_bytes,
            own + shared * (bench.block_bytes() / 3 + 1));
  EXPECT_EQ(bench.MemoryOf(sessions[2].key).split_bytes, own + shared * (bench.block_bytes() / 3));
}

// Also where its place was another's: it computes nothing that is there.
TEST(SharingTest, WhoTakesAPlaceOverSharesToo) {
  EngineBench::Options options = Sharing(PrefixSharing::kServer);
  options.engine.max_running = 2;
  EngineBench bench(options);
  bench.Run(AskAfterLesson("", 1));
  for (int i = 0; i < 6; ++i) bench.Submit(Ask(std::string(20, 'f') + std::to_string(i), 60));
  bench.Tick(4);
  const Reader* reader = bench.Submit(AskAfterLesson("cold", 2));
  bench.Tick(3);
  ASSERT_TRUE(reader->answer.prompt.has_value());
  EXPECT_EQ(reader->answer.prompt->cached_tokens, 40u);
  bench.RunToEnd();
}

TEST(SharingTest, ScopesNeverShare) {
  for (const PrefixSharing sharing : {PrefixSharing::kPeer, PrefixSharing::kSession}) {
    EngineBench bench(Sharing(sharing));
    const SessionInfo one = *bench.CreateSession({.caller = "here"});
    const SessionInfo same_peer = *bench.CreateSession({.caller = "here"});
    const SessionInfo elsewhere = *bench.CreateSession({.caller = "there"});
    bench.Run(AskAfterLesson("q", 2, "here", one.key));
    const bool shares = sharing == PrefixSharing::kPeer;
    EXPECT_EQ(bench.Run(AskAfterLesson("q", 2, "here", same_peer.key)).prompt->cached_tokens,
              shares ? 40u : 0u);
    EXPECT_EQ(bench.Run(AskAfterLesson("q", 2, "there", elsewhere.key)).prompt->cached_tokens, 0u);
  }
}

// v PR#12621: a collision of hashes reused another's keys and values.
TEST(SharingTest, WhatOnlyHashesAlikeIsComputed) {
  EngineBench strong(Sharing(PrefixSharing::kServer)), weak(Sharing(PrefixSharing::kServer, 0));
  for (const char* text : {"all the same length", "all the same hashes", "nothing like it all"}) {
    Request request = Ask(text, 6);
    const Answer want = strong.Run(request), got = weak.Run(request);
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_EQ(got.prompt->cached_tokens, want.prompt->cached_tokens);
  }
}

// A prompt that is wholly there still has its last token computed: from that the first word comes.
TEST(SharingTest, AHitStaysBelowThePrompt) {
  EngineBench bench(Sharing(PrefixSharing::kPeer));
  const Request request = Ask(std::string(40, 'x'), 4);
  const Answer first = bench.Run(request), second = bench.Run(request);
  EXPECT_EQ(second.prompt->cached_tokens, 36u);
  EXPECT_EQ(second.tokens, first.tokens);
}

TEST(SharingTest, WhatIsCachedGivesWayBeforeWhatIsHeld) {
  EngineBench::Options options = Sharing(PrefixSharing::kPeer);
  options.num_blocks = 30;
  EngineBench bench(options);
  const SessionInfo session = *bench.CreateSession();
  bench.Run(Ask(std::string(39, 's'), 1, session.key));  // 10 blocks
  bench.Run(Ask(std::string(40, 'o'), 1));               // 10, then cached
  EXPECT_EQ(bench.snapshot().pool.cached_blocks, 10);
  bench.Run(Ask(std::string(72, 'n'), 1));  // 18
  EXPECT_EQ(bench.MemoryOf(session.key).evictions, 0u);
  EXPECT_EQ(bench.MemoryOf(session.key).charged_bytes, 10 * bench.block_bytes());
}

// The words after the cut are others', so the block where they part is not what the index has.
TEST(SharingTest, AfterAResetANewTurnDoesNotWriteIntoWhatOthersFind) {
  EngineBench bench(Sharing(PrefixSharing::kServer));
  const SessionInfo session = *bench.CreateSession();
  bench.Run(Ask("one turn of some", 5, session.key));
  bench.Run(Ask("and another turn", 5, session.key));
  const SessionInfo twin = *bench.CreateSession();
  ASSERT_TRUE(bench.ResetSession(session.key, 1).ok());
  const Answer changed = bench.Run(Ask("something else entirely", 5, session.key));
  // Who says what was said first gets what was answered first.
  EngineBench fresh(Sharing(PrefixSharing::kServer));
  const SessionInfo alone = *fresh.CreateSession();
  for (const char* text : {"one turn of some", "and another turn"}) {
    EXPECT_EQ(bench.Run(Ask(text, 5, twin.key)).tokens, fresh.Run(Ask(text, 5, alone.key)).tokens);
  }
}

// --- Forks. ---

TEST(ForkTest, GoesOnFromItsTurnAndCopiesOnlyWhatItWritesTo) {
  EngineBench bench(Sharing(PrefixSharing::kSession));
  const SessionInfo origin = *bench.CreateSession();
  bench.Run(AskAfterLesson("", 4, "class", origin.key));  // 45 computed: 11 blocks and a part
  const int64_t held = bench.snapshot().pool.charged_blocks;
  ASSERT_EQ(held, 12);
  const SessionInfo fork = *bench.ForkSession(origin.key, {.caller = "class", .label = "branch"});
  EXPECT_EQ(fork.turn, 1u);
  EXPECT_EQ(fork.label, "branch");
  EXPECT_NE(fork.key, origin.key);
  EXPECT_EQ(bench.snapshot().pool.charged_blocks, held);  // not a byte more
  EXPECT_EQ(bench.MemoryOf(fork.key).shared_blocks, 12);

  const Answer left = bench.Run(AskAfterLesson("left", 4, "class", fork.key));
  EXPECT_EQ(left.finished->usage.cached_tokens, 45u);
  EXPECT_EQ(bench.MemoryOf(origin.key).shared_blocks, 11);  // the part was copied
  const Answer right = bench.Run(AskAfterLesson("right", 4, "class", origin.key));

  EngineBench fresh(Sharing(PrefixSharing::kSession));
  for (const auto& [question, answer] : {std::pair("left", left), std::pair("right", right)}) {
    const SessionInfo alone = *fresh.CreateSession();
    fresh.Run(AskAfterLesson("", 4, "class", alone.key));
    EXPECT_EQ(fresh.Run(AskAfterLesson(question, 4, "class", alone.key)).tokens, answer.tokens);
  }
}

TEST(ForkTest, BranchesAtAnyTurn) {
  EngineBench bench(Sharing(PrefixSharing::kPeer));
  const SessionInfo origin = *bench.CreateSession({.caller = "class", .label = "story"});
  for (const char* text : {"one", "two", "three"}) bench.Run(Ask(text, 6, origin.key));
  const SessionInfo fork = *bench.ForkSession(origin.key, {.caller = "class", .at_turn = 2});
  EXPECT_EQ(fork.turn, 2u);
  EXPECT_EQ(fork.label, "story");
  const SessionInfo empty = *bench.ForkSession(origin.key, {.caller = "class", .at_turn = 0});
  EXPECT_EQ(empty.turn, 0u);
  EXPECT_EQ(empty.tokens, 0u);
  const auto beyond = bench.ForkSession(origin.key, {.caller = "class", .at_turn = 4});
  EXPECT_EQ(beyond.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(beyond.status().message()),
              testing::HasSubstr("4 is above the session's turn, 3"));
  // The fork says the third turn's words as the origin did.
  EngineBench fresh(Sharing(PrefixSharing::kPeer));
  const SessionInfo alone = *fresh.CreateSession();
  for (const char* text : {"one", "two"}) fresh.Run(Ask(text, 6, alone.key));
  EXPECT_EQ(bench.Run(Ask("else", 6, fork.key)).tokens,
            fresh.Run(Ask("else", 6, alone.key)).tokens);
}

// The block that it goes on from is copied, which is no block more to it.
TEST(ForkTest, GoesOnAtTheEdgeOfItsQuota) {
  for (const bool in_company : {false, true}) {
    EngineBench bench(Sharing(PrefixSharing::kSession));
    const SessionInfo origin = *bench.CreateSession();
    Request first = Ask(std::string(123, 'a'), 3, origin.key);
    first.stopping.ignore_eos = true;
    bench.Run(first);  // 125 computed: 32 blocks, the quota
    const SessionInfo fork = *bench.ForkSession(origin.key);
    if (in_company) bench.Submit(AskAfterLesson("", 60, "other"));
    const Reader* reader = bench.Submit(Ask("z", 1, fork.key));
    bench.Tick(5);
    ASSERT_TRUE(reader->answer.finished.has_value());
    EXPECT_EQ(reader->answer.finished->reason, FinishReason::kLength)
        << reader->answer.finished->error;
    bench.RunToEnd();
  }
}

// Who is silent gives way, and then there is nothing to copy.
TEST(ForkTest, FitsWhereItsOriginCanGo) {
  EngineBench::Options options = Sharing(PrefixSharing::kSession);
  options.num_blocks = 32;  // one context
  EngineBench bench(options);
  const SessionInfo origin = *bench.CreateSession();
  Request first = Ask(std::string(40, 'a'), 3, origin.key);
  first.stopping.ignore_eos = true;
  bench.Run(first);
  const SessionInfo fork = *bench.ForkSession(origin.key);
  const Answer answer = bench.Run(Ask(std::string(83, 'z'), 1, fork.key));
  EXPECT_EQ(answer.finished->reason, FinishReason::kLength) << answer.finished->error;
}

TEST(ForkTest, NotWhileAGenerationLivesNorBeyondTheLimitOfSessions) {
  EngineBench::Options options = Sharing(PrefixSharing::kPeer);
  options.engine.max_sessions = 2;
  EngineBench bench(options);
  const SessionInfo origin = *bench.CreateSession();
  bench.Submit(Ask("x", 5, origin.key));
  EXPECT_EQ(bench.ForkSession(origin.key).status().code(), absl::StatusCode::kAborted);
  bench.RunToEnd();
  EXPECT_TRUE(bench.ForkSession(origin.key).ok());
  EXPECT_EQ(bench.ForkSession(origin.key).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(bench.ForkSession("unknown").status().code(), absl::StatusCode::kNotFound);
}

// --- Continuations. ---

TEST(ContinuationsTest, ThirtyStoriesForThePriceOfOnePrompt) {
  EngineBench bench(Sharing(PrefixSharing::kSession));
  Request request = AskAfterLesson("", 5);
  request.sampling.temperature = 1.0f;
  request.sampling.seed = 7;
  const std::vector<Reader*> readers = bench.SubmitMany(request, 30);
  bench.RunToEnd();
  EXPECT_EQ(bench.backend().computed_tokens(), 42 + 29 * 1 + 30 * 4);
  std::set<uint64_t> seeds;
  for (const Reader* reader : readers) {
    ASSERT_TRUE(reader->answer.finished.has_value());
    seeds.insert(reader->answer.accepted->seed);
    // Alone with the seed that it was told, it says the same.
    EngineBench alone(Sharing(PrefixSharing::kSession));
    request.sampling.seed = reader->answer.accepted->seed;
    EXPECT_EQ(alone.Run(request).tokens, reader->answer.tokens);
  }
  EXPECT_EQ(seeds.size(), 30u);
  EXPECT_EQ(readers[0]->answer.accepted->seed, 7u);
}

TEST(ContinuationsTest, EachEndsByItself) {
  EngineBench bench(Sharing(PrefixSharing::kPeer));
  const std::vector<Reader*> readers = bench.SubmitMany(AskAfterLesson("", 40), 3);
  bench.Tick(4);
  readers[0]->stream->RequestCancel();  // the one that the others' prompt came from
  bench.RunToEnd();
  EXPECT_EQ(readers[0]->answer.finished->reason, FinishReason::kCancelled);
  EXPECT_EQ(readers[1]->answer.tokens.size(), 40u);
  EXPECT_EQ(readers[2]->answer.tokens.size(), 40u);
}

TEST(ContinuationsTest, WithoutAWordToSay) {
  EngineBench bench(Sharing(PrefixSharing::kPeer));
  const auto readers =
      bench.SubmitMany(AskAfterLesson("", 0, "a caller whose name is no short string"), 3);
  bench.RunToEnd();
  for (const Reader* reader : readers) {
    EXPECT_EQ(reader->answer.finished->reason, FinishReason::kLength);
  }
}

TEST(ContinuationsTest, ARefusalIsEverybodys) {
  EngineBench::Options options = Sharing(PrefixSharing::kPeer);
  options.engine.queue_limit = 4;
  EngineBench bench(options);
  const std::vector<Reader*> readers = bench.SubmitMany(AskAfterLesson("", 4), 5);
  bench.RunToEnd();
  for (const Reader* reader : readers) {
    ASSERT_TRUE(reader->answer.rejected.has_value());
    EXPECT_EQ(reader->answer.rejected->code(), absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace luna::engine
