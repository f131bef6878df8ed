#include "core/sched/waiting_queue.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_tokenizer.h"

namespace luna::sched {
namespace {

using testing::ElementsAre;

class WaitingQueueTest : public ::testing::Test {
 protected:
  // A prompt of one token, in a session of its own.
  Sequence* Push(uint64_t caller, int priority = 0, int prompt_tokens = 1) {
    const size_t number = sequences_.size();
    caches_.push_back(std::make_unique<SessionCache>(SessionId(number), &layout_, &pool_, 1));
    SequenceSpec spec;
    spec.id = SequenceId(number);
    spec.caller = caller;
    spec.priority = priority;
    spec.prompt.assign(prompt_tokens, 1);
    spec.stopping.max_tokens = 1;
    sequences_.push_back(
        std::make_unique<Sequence>(std::move(spec), caches_.back().get(), &tokenizer_));
    Sequence* sequence = sequences_.back().get();
    shares_.Enter(*sequence);
    queue_.Push(sequence);
    return sequence;
  }
  // As the scheduler admits the first in line.
  Sequence* Admit() {
    Sequence* sequence = queue_.InOrder(shares_).Next();
    queue_.Remove(sequence);
    shares_.Serve(*sequence, sequence->tokens_to_charge());
    sequence->schedule.was_admitted = true;
    return sequence;
  }
  void End(Sequence* sequence) { shares_.Leave(*sequence); }
  std::vector<uint64_t> Ids() {
    std::vector<uint64_t> ids;
    WaitingQueue::Line line = queue_.InOrder(shares_);
    while (const Sequence* sequence = line.Next()) ids.push_back(sequence->id().value());
    return ids;
  }

  const kv::KvLayout layout_ = kv::MakeLayout(std::vector<int>{0}, 4, 16);
  kv::BlockPool pool_{1};
  fakes::FakeTokenizer tokenizer_;
  std::vector<std::unique_ptr<SessionCache>> caches_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  FairShares shares_;
  WaitingQueue queue_;
};

TEST_F(WaitingQueueTest, OneCallerIsServedInOrder) {
  for (int i = 0; i < 4; ++i) Push(7);
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 2, 3));
}

TEST_F(WaitingQueueTest, CallersTakeTurns) {
  for (int i = 0; i < 3; ++i) Push(1);
  Push(2);
  Push(2);
  Push(3);
  EXPECT_THAT(Ids(), ElementsAre(0, 3, 5, 1, 4, 2));
}

TEST_F(WaitingQueueTest, CallersTakeTurnsByTokens) {
  for (int i = 0; i < 6; ++i) Push(1, 0, 10);
  Push(2, 0, 25);
  Push(2, 0, 25);
  EXPECT_THAT(Ids(), ElementsAre(0, 6, 1, 2, 7, 3, 4, 5));
}

TEST_F(WaitingQueueTest, WhoIsNewStandsBehindWhomWasGivenLeastAtMost) {
  for (int i = 0; i < 5; ++i) Push(1);
  for (int i = 0; i < 3; ++i) shares_.Serve(*Admit(), 100);
  Push(2);
  EXPECT_EQ(shares_.served(2), shares_.served(1));  // lifted: silence earns nothing
  EXPECT_THAT(Ids(), ElementsAre(3, 5, 4));
}

TEST_F(WaitingQueueTest, PriorityOrdersTheRequestsOfOneCaller) {
  Push(1);
  Push(1, 5);
  Push(1, -1);
  Push(1, 5);
  Push(1, 0);
  EXPECT_THAT(Ids(), ElementsAre(1, 3, 0, 4, 2));
}

TEST_F(WaitingQueueTest, PriorityGivesNothingAtTheCostOfAnother) {
  Push(1);
  Push(2);
  Push(2);
  Push(1, 100);
  Push(1, 100);
  EXPECT_THAT(Ids(), ElementsAre(1, 3, 2, 4, 0));
}

TEST_F(WaitingQueueTest, OfOneCallersSessionsTheOneThatWasGivenLessIsFirst) {
  for (const uint64_t served : {50, 20, 10}) {
    Sequence* sequence = Push(1);
    queue_.Remove(sequence);
    sequence->cache().served_tokens = served;
    queue_.Push(sequence);
  }
  EXPECT_THAT(Ids(), ElementsAre(2, 1, 0));
  // What was put back for want of blocks comes first; what gave way does not.
  Sequence* greedy = sequences_[0].get();
  queue_.Remove(greedy);
  greedy->schedule.was_admitted = true;
  queue_.Push(greedy);
  EXPECT_THAT(Ids(), ElementsAre(0, 2, 1));
  queue_.Remove(greedy);
  greedy->schedule.gave_way = true;
  queue_.Push(greedy);
  EXPECT_THAT(Ids(), ElementsAre(2, 1, 0));
}

TEST_F(WaitingQueueTest, ASecondRequestIsServedThoughOthersAskAgainAndAgain) {
  Push(1);
  Push(1);
  Push(2);
  Push(3);
  std::vector<uint64_t> served;
  for (int turn = 0; turn < 8; ++turn) {
    Sequence* first = Admit();
    served.push_back(first->id().value());
    End(first);
    if (first->caller() != 1) Push(first->caller());
  }
  EXPECT_THAT(served, testing::Contains(1u));
}

TEST_F(WaitingQueueTest, SilenceDoesNotWashAFloodAway) {
  Sequence* other = Push(2);
  Sequence* flood = Push(1);
  shares_.Serve(*flood, 1000);
  queue_.Remove(flood);
  End(flood);
  shares_.Serve(*other, 10);
  Push(1);
  EXPECT_EQ(shares_.served(1), 1000u);
  EXPECT_THAT(Ids(), ElementsAre(0, 2));
}

TEST_F(WaitingQueueTest, OnceNobodyIsActiveTheCountBeginsAnew) {
  Sequence* first = Push(1);
  shares_.Serve(*first, 1000);
  queue_.Remove(first);
  End(first);
  Push(1);
  Push(2);
  EXPECT_THAT(Ids(), ElementsAre(1, 2));
}

TEST_F(WaitingQueueTest, OneThatFillsTheLineShutsNobodyOut) {
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(queue_.HasRoom(1, 1, 8));
    Push(1);
  }
  EXPECT_FALSE(queue_.HasRoom(1, 1, 8));
  EXPECT_TRUE(queue_.HasRoom(2, 4, 8));
  EXPECT_FALSE(queue_.HasRoom(2, 5, 8));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(queue_.HasRoom(2, 1, 8));
    Push(2);
  }
  EXPECT_FALSE(queue_.HasRoom(2, 1, 8));  // half of the limit is its share
  EXPECT_TRUE(queue_.HasRoom(3, 1, 8));
  EXPECT_FALSE(queue_.HasRoom(3, 1, 2));  // less than one each
}

}  // namespace
}  // namespace luna::sched
