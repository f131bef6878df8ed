#include "core/base/bounded_queue.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna {
namespace {

using ::testing::ElementsAre;

TEST(BoundedQueueTest, KeepsOrderAndRefusesWhenFull) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.Push(1));
  EXPECT_TRUE(queue.Push(2));
  EXPECT_FALSE(queue.Push(3));
  std::vector<int> out{9};
  queue.TakeAll(out);
  EXPECT_THAT(out, ElementsAre(1, 2));
  EXPECT_TRUE(queue.Push(4));
}

TEST(BoundedQueueTest, ARefusedItemStaysWithTheCaller) {
  BoundedQueue<std::unique_ptr<int>> queue(0);
  auto item = std::make_unique<int>(7);
  EXPECT_FALSE(queue.Push(std::move(item)));
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(*item, 7);
}

TEST(BoundedQueueTest, CloseRefusesAndEndsTheWait) {
  BoundedQueue<int> queue(1);
  std::thread consumer([&] { queue.Wait(); });
  queue.Close();
  consumer.join();
  EXPECT_FALSE(queue.Push(1));
}

TEST(BoundedQueueTest, ManyProducersLoseNothing) {
  BoundedQueue<int> queue(4000);
  std::vector<std::thread> producers;
  for (int p = 0; p < 4; ++p) {
    producers.emplace_back([&queue] {
      for (int i = 0; i < 1000; ++i) queue.Push(1);
    });
  }
  size_t taken = 0;
  std::vector<int> out;
  while (taken < 4000) {
    queue.Wait();
    queue.TakeAll(out);
    taken += out.size();
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(taken, 4000u);
}

}  // namespace
}  // namespace luna
