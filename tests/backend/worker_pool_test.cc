#include "core/backend/cpu/worker_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/backend/cpu/cpu_count.h"

namespace luna::backend::cpu {
namespace {

TEST(WorkerPoolTest, EveryThreadRunsOncePerCall) {
  for (const int threads : {1, 2, 3, 8}) {
    WorkerPool pool(threads);
    std::vector<int> calls(threads, 0);
    auto body = [&](int thread) { ++calls[thread]; };
    for (int i = 0; i < 200; ++i) pool.Run(body);
    EXPECT_EQ(calls, std::vector<int>(threads, 200));
  }
}

TEST(WorkerPoolTest, SyncLetsNobodyPassBeforeAllArrived) {
  constexpr int kThreads = 4, kRounds = 300;
  WorkerPool pool(kThreads);
  std::vector<int> written(kThreads, -1);
  std::atomic<int> late{0};
  auto body = [&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      written[thread] = round;
      pool.Sync();
      for (int other : written) late += other != round;
      pool.Sync();
    }
  };
  pool.Run(body);
  EXPECT_EQ(late, 0);
}

TEST(WorkerPoolTest, RunAloneWakesNobodyAndSyncPasses) {
  WorkerPool pool(3);
  std::vector<int> calls(3, 0);
  auto body = [&](int thread) {
    ++calls[thread];
    pool.Sync();
  };
  for (int i = 0; i < 50; ++i) {
    pool.RunAlone(body);
    pool.Run(body);
  }
  EXPECT_EQ(calls, (std::vector<int>{100, 50, 50}));
}

TEST(WorkerPoolTest, StaticRangesCoverEverythingOnce) {
  for (const int count : {0, 1, 5, 16, 1000}) {
    for (const int threads : {1, 2, 3, 7}) {
      int next = 0;
      for (int t = 0; t < threads; ++t) {
        const Range range = StaticRange(count, t, threads);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.end - range.begin, count / threads + 1);
        next = range.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(CpuCountTest, QuotaIsRoundedUp) {
  EXPECT_EQ(QuotaCpus("200000 100000"), 2);
  EXPECT_EQ(QuotaCpus("150000 100000\n"), 2);
  EXPECT_EQ(QuotaCpus("1000 100000"), 1);
  EXPECT_EQ(QuotaCpus("max 100000"), 0);
  EXPECT_EQ(QuotaCpus("100000"), 0);
  EXPECT_EQ(QuotaCpus(""), 0);
  EXPECT_EQ(QuotaCpus("-1 100000"), 0);
  EXPECT_GE(UsableCpus(), 1);
}

}  // namespace
}  // namespace luna::backend::cpu
