#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/memory_limit.h"
#include "server/pool_size.h"
#include "tests/fakes/temp_dir.h"

namespace luna::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A tree of the files the kernel shows, of which this process is one.
class MemoryLimitTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = std::filesystem::path(root_.path()) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int64_t Available() const { return AvailableMemoryBytes(root_.path()); }

  TempDir root_;
};

constexpr char kMeminfo[] = "MemTotal:       4096 kB\nMemFree:  10 kB\nMemAvailable:   2048 kB\n";

TEST_F(MemoryLimitTest, NothingToReadIsZero) { EXPECT_EQ(Available(), 0); }

TEST_F(MemoryLimitTest, TheMachinesAvailableMemory) {
  Write("proc/meminfo", kMeminfo);
  EXPECT_EQ(Available(), 2048 * 1024);
}

TEST_F(MemoryLimitTest, AV2GroupAndThoseAboveItBound) {
  Write("proc/meminfo", kMeminfo);
  Write("proc/self/cgroup", "0::/class/luna\n");
  Write("sys/fs/cgroup/class/luna/memory.max", "max\n");
  Write("sys/fs/cgroup/class/luna/memory.current", "1000\n");
  EXPECT_EQ(Available(), 2048 * 1024);
  Write("sys/fs/cgroup/class/memory.max", "1000000\n");
  Write("sys/fs/cgroup/class/memory.current", "400000\n");
  EXPECT_EQ(Available(), 600000);
  Write("sys/fs/cgroup/class/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");
  EXPECT_EQ(Available(), 700000);
}

TEST_F(MemoryLimitTest, AContainersOwnRootBoundsWhereTheHostsPathIsNotThere) {
  Write("proc/meminfo", kMeminfo);
  Write("proc/self/cgroup", "0::/system.slice/docker-1.scope\n");
  Write("sys/fs/cgroup/memory.max", "500000\n");
  Write("sys/fs/cgroup/memory.current", "100000\n");
  EXPECT_EQ(Available(), 400000);
}

TEST_F(MemoryLimitTest, AV1GroupBounds) {
  Write("proc/meminfo", kMeminfo);
  Write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a\n0::/\n");
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "300000\n");
  Write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "350000\n");
  EXPECT_EQ(Available(), 0);
  Write("sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 60000\n");
  EXPECT_EQ(Available(), 10000);
}

kv::KvLayout Layout() {
  const int windows[] = {0, 0};
  return kv::MakeLayout(windows, /*block_tokens=*/16, /*token_layer_bytes=*/64);
}

TEST(PoolSizeTest, ByDefaultEverySessionHasItsContext) {
  const PoolSize size =
      *ChoosePoolSize(Layout(), {.context = 100, .max_batch_tokens = 32, .max_sessions = 10});
  EXPECT_EQ(size.context_blocks, 7);
  EXPECT_EQ(size.num_blocks, 70);
  EXPECT_EQ(size.bytes, 70 * 16 * 2 * 64);
  EXPECT_DOUBLE_EQ(size.full_sessions(), 10.0);
}

TEST(PoolSizeTest, ByDefaultHalfOfWhatIsLeftStaysFree) {
  const PoolSize size = *ChoosePoolSize(Layout(), {.available_bytes = 2048 * 20 + 4000,
                                                   .context = 100,
                                                   .max_batch_tokens = 32,
                                                   .max_sessions = 10});
  EXPECT_EQ(size.num_blocks, 10);
}

TEST(PoolSizeTest, WhatIsAskedForIsTakenOrRefused) {
  PoolRequest request{.kv_cache_bytes = 5000,
                      .available_bytes = 6000,
                      .context = 100,
                      .max_batch_tokens = 32,
                      .max_sessions = 10};
  EXPECT_EQ(ChoosePoolSize(Layout(), request)->num_blocks, 2);
  request.kv_cache_bytes = 6001;
  EXPECT_THAT(std::string(ChoosePoolSize(Layout(), request).status().message()),
              AllOf(HasSubstr("--kv-cache-bytes"), HasSubstr("6001"), HasSubstr("6000")));
  request.kv_cache_bytes = 2047;
  EXPECT_THAT(std::string(ChoosePoolSize(Layout(), request).status().message()),
              AllOf(HasSubstr("--kv-cache-bytes"), HasSubstr("2047"), HasSubstr("2048")));
}

}  // namespace
}  // namespace luna::server
