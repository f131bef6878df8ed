// The fake says so when it is misused, so that a test that finds no faults means something.
#include "tests/fakes/fake_backend.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::fakes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FakeBackendTest : public ::testing::Test {
 protected:
  FakeBackendTest() : backend_(64) {
    EXPECT_TRUE(backend_.AllocateKv(kv::MakeLayout(std::vector<int>{0}, 4, 16), 4).ok());
    backend_.set_depth(2);
  }

  // One sequence: `token` at `position` of its only block, then a choice after what it has said.
  batch::Batch Step(TokenId token, int position) {
    batch::Batch batch;
    batch.token_ids = {token};
    batch.positions = {position};
    batch.sequence_starts = {0, 1};
    batch.context_lengths = {position + 1};
    batch.block_tables = {2};
    batch.block_table_starts = {0, 1};
    sample::SampleSpec spec;
    spec.params = &params_;
    spec.position = position + 1;
    spec.prompt = prompt_;
    spec.output = output_;
    if (batch::IsPending(token)) spec.pending = batch::PendingSample(token);
    batch.samples = {spec};
    return batch;
  }

  FakeBackend backend_;
  sample::SamplingParams params_;
  std::vector<TokenId> prompt_ = {'a'}, output_;
  batch::StepResult result_;
};

TEST_F(FakeBackendTest, ATokenThatIsNotKnownYetIsTheOneThatTheStepBeforeChooses) {
  std::vector<TokenId> said;
  for (const int depth : {1, 2}) {
    FakeBackend backend(64);
    ASSERT_TRUE(backend.AllocateKv(kv::MakeLayout(std::vector<int>{0}, 4, 16), 4).ok());
    backend.set_depth(depth);
    output_.clear();
    ASSERT_TRUE(backend.Launch(Step('a', 0)).ok());
    if (depth == 1) {
      ASSERT_TRUE(backend.Collect(result_).ok());
      output_ = {result_.samples[0].token};
      ASSERT_TRUE(backend.Launch(Step(output_[0], 1)).ok());
    } else {
      ASSERT_TRUE(backend.Launch(Step(batch::PendingToken(0), 1)).ok());
      EXPECT_EQ(backend.in_flight(), 2);
      EXPECT_EQ(backend.steps_ahead(), 1);
      ASSERT_TRUE(backend.Collect(result_).ok());
    }
    ASSERT_TRUE(backend.Collect(result_).ok());
    EXPECT_THAT(backend.faults(), IsEmpty());
    said.push_back(result_.samples[0].token);
  }
  EXPECT_EQ(said[0], said[1]);
}

TEST_F(FakeBackendTest, APendingTokenNeedsAStepInFlightThatChoosesIt) {
  ASSERT_TRUE(backend_.Launch(Step(batch::PendingToken(0), 1)).ok());
  EXPECT_THAT(backend_.faults(), ElementsAre(HasSubstr("a pending token, and no step in flight")));
  ASSERT_TRUE(backend_.Launch(Step(batch::PendingToken(1), 1)).ok());
  EXPECT_THAT(backend_.faults(), ElementsAre(HasSubstr(""), HasSubstr("pending sample 1 of 1")));
}

TEST_F(FakeBackendTest, AThirdStepInFlightIsRefused) {
  ASSERT_TRUE(backend_.Launch(Step('a', 0)).ok());
  ASSERT_TRUE(backend_.Launch(Step('a', 0)).ok());
  EXPECT_THAT(backend_.faults(), IsEmpty());
  EXPECT_FALSE(backend_.Launch(Step('a', 0)).ok());
  EXPECT_THAT(backend_.faults(), ElementsAre(HasSubstr("2 are in flight; the depth is 2")));
}

TEST_F(FakeBackendTest, NothingIsCollectedThatWasNotLaunched) {
  EXPECT_FALSE(backend_.Collect(result_).ok());
  EXPECT_THAT(backend_.faults(), ElementsAre(HasSubstr("was not launched")));
}

TEST_F(FakeBackendTest, AChoiceFollowsTheTokenThatIsComputed) {
  ASSERT_TRUE(backend_.Launch(Step('b', 0)).ok());
  EXPECT_THAT(backend_.faults(), ElementsAre(HasSubstr("row 0 is token 98")));
}

TEST_F(FakeBackendTest, ACopyTakesItsPlaceBetweenTwoSteps) {
  ASSERT_TRUE(backend_.Launch(Step('a', 0)).ok());
  const std::vector<backend::BlockCopy> copies = {{BlockId(2), BlockId(3)}};
  ASSERT_TRUE(backend_.CopyBlocks(copies).ok());
  batch::Batch next = Step(batch::PendingToken(0), 1);
  next.block_tables = {3};
  ASSERT_TRUE(backend_.Launch(next).ok());
  ASSERT_TRUE(backend_.Collect(result_).ok());
  ASSERT_TRUE(backend_.Collect(result_).ok());
  EXPECT_THAT(backend_.faults(), IsEmpty());  // it found the first position in its own block
}

}  // namespace
}  // namespace luna::fakes
