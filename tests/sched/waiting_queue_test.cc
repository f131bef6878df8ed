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
  Sequence* Push(uint64_t caller, int priority = 0) {
    SequenceSpec spec;
    spec.id = SequenceId(sequences_.size());
    spec.caller = caller;
    spec.priority = priority;
    spec.prompt = {1};
    spec.stopping.max_tokens = 1;
    sequences_.push_back(std::make_unique<Sequence>(std::move(spec), &cache_, &tokenizer_));
    queue_.Push(sequences_.back().get());
    return sequences_.back().get();
  }
  std::vector<uint64_t> Ids() const {
    std::vector<uint64_t> ids;
    for (const Sequence* sequence : queue_.entries()) ids.push_back(sequence->id().value());
    return ids;
  }

  const kv::KvLayout layout_ = kv::MakeLayout(std::vector<int>{0}, 4, 16);
  kv::BlockPool pool_{1};
  SessionCache cache_{SessionId(1), &layout_, &pool_, 1};
  fakes::FakeTokenizer tokenizer_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
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

TEST_F(WaitingQueueTest, AFirstRequestStandsBehindWhatIsServedNextAtMost) {
  for (int i = 0; i < 5; ++i) Push(1);
  queue_.PopFront();
  queue_.PopFront();  // the second of caller 1: tag 1
  Push(2);
  EXPECT_THAT(Ids(), ElementsAre(5, 2, 3, 4));
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

// The second of two requests fell behind every newcomer, as if the first had never been.
TEST_F(WaitingQueueTest, ASecondRequestIsServedThoughOthersAskAgainAndAgain) {
  Push(1);
  Push(1);
  Push(2);
  Push(3);
  std::vector<uint64_t> served;
  for (int turn = 0; turn < 8; ++turn) {
    Sequence* first = queue_.front();
    queue_.PopFront();
    served.push_back(first->id().value());
    if (first->caller() != 1) Push(first->caller());
  }
  EXPECT_THAT(served, testing::Contains(1u));
}

TEST_F(WaitingQueueTest, OneThatFillsTheLineShutsNobodyOut) {
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(queue_.HasRoom(1, 8));
    Push(1);
  }
  EXPECT_FALSE(queue_.HasRoom(1, 8));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(queue_.HasRoom(2, 8));
    Push(2);
  }
  EXPECT_FALSE(queue_.HasRoom(2, 8));  // half of the limit is its share
  EXPECT_TRUE(queue_.HasRoom(3, 8));
  EXPECT_FALSE(queue_.HasRoom(3, 2));  // less than one each
}

TEST_F(WaitingQueueTest, OnceNobodyWaitsTheCountBeginsAnew) {
  for (int i = 0; i < 5; ++i) Push(1);
  for (int i = 0; i < 5; ++i) queue_.PopFront();
  Push(1);
  Push(2);
  EXPECT_THAT(Ids(), ElementsAre(5, 6));
}

TEST_F(WaitingQueueTest, WhoComesBackStandsWhereItStood) {
  Sequence* first = Push(1);
  Push(1);
  queue_.PopFront();
  Push(1);
  queue_.PushAgain(first);
  EXPECT_THAT(Ids(), ElementsAre(0, 1, 2));
  EXPECT_EQ(queue_.Position(first), 0u);
  queue_.Remove(sequences_[1].get());
  EXPECT_THAT(Ids(), ElementsAre(0, 2));
}

}  // namespace
}  // namespace luna::sched
