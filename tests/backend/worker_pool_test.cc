#include "core/backend/cpu/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
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
      pool.Sync(thread);
      for (int other : written) late += other != round;
      pool.Sync(thread);
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
    pool.Sync(thread);
  };
  for (int i = 0; i < 50; ++i) {
    pool.RunAlone(body);
    pool.Run(body);
  }
  EXPECT_EQ(calls, (std::vector<int>{100, 50, 50}));
}

// Alone or together, in whatever order.
TEST(WorkerPoolTest, SharedThingsAreDoneOnceBetweenTwoBarriers) {
  for (const int threads : {1, 2, 3, 8}) {
    WorkerPool pool(threads);
    for (const int count : {0, 1, 7, 64, 65}) {
      for (const int grain : {1, 4, 100}) {
        std::vector<int> done(count, 0);
        std::atomic<int> too_large{0};
        auto body = [&](int thread) {
          for (int round = 0; round < 3; ++round) {
            pool.Share(thread, count, grain, [&](Range range) {
              too_large += range.end - range.begin > grain;
              for (int i = range.begin; i < range.end; ++i) ++done[i];
            });
            pool.Sync(thread);
          }
        };
        for (int i = 0; i < 10; ++i) {
          pool.Run(body);
          pool.RunAlone(body);
        }
        EXPECT_EQ(done, std::vector<int>(count, 60));
        EXPECT_EQ(too_large, 0);
      }
    }
  }
}

// A thread that is held up has its part done by the others.
TEST(WorkerPoolTest, OthersTakeWhatAThreadDoesNotGetTo) {
  WorkerPool pool(2);
  std::atomic<int> done{0};
  auto body = [&](int thread) {
    pool.Share(thread, 100, 1, [&](Range) {
      ++done;
      if (thread == 1) {
        while (done < 100) std::this_thread::yield();
      }
    });
  };
  pool.Run(body);
  EXPECT_EQ(done, 100);
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
