#include "server/rpc/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

namespace luna::rpc {
namespace {

using ::testing::ElementsAre;

// One thread that is busy until the test lets it go, so that what waits can be arranged.
class WorkerPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pool_.Run("busy", 0, [this] {
      begun_.set_value();
      go_.get_future().wait();
    });
    begun_.get_future().wait();
  }
  void TearDown() override {
    if (!let_go_) Finish();
  }

  bool Run(const std::string& lane, const std::string& name, size_t bytes = 1) {
    return pool_.Run(lane, bytes, [this, name] { ran_.push_back(name); });
  }
  // What ran, in order.
  std::vector<std::string> Finish() {
    let_go_ = true;
    go_.set_value();
    pool_.Stop();
    return ran_;
  }

  std::promise<void> begun_;
  std::promise<void> go_;
  std::vector<std::string> ran_;
  bool let_go_ = false;
  WorkerPool pool_{1, {.tasks = 3, .bytes = 100}};
};

TEST_F(WorkerPoolTest, LanesTakeTurns) {
  for (const char* name : {"a1", "a2", "a3"}) EXPECT_TRUE(Run("a", name));
  for (const char* name : {"b1", "b2"}) EXPECT_TRUE(Run("b", name));
  EXPECT_TRUE(Run("c", "c1"));
  EXPECT_THAT(Finish(), ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
}

TEST_F(WorkerPoolTest, AFullLaneRefusesAndShutsNobodyElseOut) {
  for (const char* name : {"a1", "a2", "a3"}) EXPECT_TRUE(Run("a", name));
  EXPECT_FALSE(Run("a", "a4"));
  EXPECT_TRUE(Run("b", "b1"));
  EXPECT_THAT(Finish(), ElementsAre("a1", "b1", "a2", "a3"));
}

TEST_F(WorkerPoolTest, BytesAreBoundedButALargeTaskMayWaitAlone) {
  EXPECT_TRUE(Run("a", "a1", 1000));
  EXPECT_FALSE(Run("a", "a2", 1));
  EXPECT_TRUE(Run("b", "b1", 60));
  EXPECT_FALSE(Run("b", "b2", 41));
  EXPECT_TRUE(Run("b", "b3", 40));
  EXPECT_THAT(Finish(), ElementsAre("a1", "b1", "b3"));
}

TEST_F(WorkerPoolTest, AfterItsStopItRefuses) {
  Finish();
  EXPECT_FALSE(Run("a", "a1"));
}

}  // namespace
}  // namespace luna::rpc
