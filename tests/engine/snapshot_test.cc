// The ledger and the load, in numbers.
#include <string>

#include "core/engine/rate_meter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Answer;
using fakes::Ask;
using fakes::EngineBench;
using fakes::Reader;

Request Long(int prompt_tokens, int64_t max_tokens, std::string session = "") {
  Request request = Ask(std::string(prompt_tokens, 't'), max_tokens, std::move(session));
  request.stopping.ignore_eos = true;
  return request;
}

TEST(SnapshotTest, UsedBytesAreTheComputedTokensToTheByte) {
  EngineBench bench;
  const SessionInfo session = *bench.CreateSession();
  const int64_t token_bytes = bench.layout().token_bytes();
  bench.Submit(Long(10, 20, session.key));
  for (int tick = 0; tick < 20; ++tick) {
    bench.Tick();
    const SessionMemory memory = bench.MemoryOf(session.key);
    // The last sampled token has no KV yet.
    EXPECT_EQ(memory.tokens, 11u + tick);
    EXPECT_EQ(memory.used_bytes, (10 + tick) * token_bytes);
    // A step in flight has its place already.
    EXPECT_EQ(memory.private_blocks, (10 + tick + bench.backend().in_flight() + 3) / 4);
    EXPECT_EQ(memory.slack_bytes, memory.private_blocks * bench.block_bytes() - memory.used_bytes);
    EXPECT_EQ(memory.generated_tokens, tick + 1u);
  }
  EXPECT_EQ(bench.MemoryOf(session.key).state, SessionState::kIdle);
  EXPECT_EQ(bench.MemoryOf(session.key).peak_bytes, 8 * bench.block_bytes());
}

TEST(SnapshotTest, WindowedLayersUseWhatIsStillHeld) {
  EngineBench::Options options;
  options.windows = {0, 8};
  EngineBench bench(options);
  const SessionInfo session = *bench.CreateSession();
  bench.Run(Long(30, 3, session.key));  // 32 computed
  // Position 32 sees 25..32: the windowed layer holds positions 24..31.
  EXPECT_EQ(bench.MemoryOf(session.key).used_bytes, (32 + 8) * 16);
  EXPECT_EQ(bench.MemoryOf(session.key).charged_bytes, (8 + 2) * bench.block_bytes());
}

TEST(SnapshotTest, StatesFollowTheGeneration) {
  EngineBench::Options options;
  options.engine.max_batch_tokens = 8;
  options.engine.max_running = 1;
  EngineBench bench(options);
  const SessionInfo first = *bench.CreateSession(), second = *bench.CreateSession();
  bench.Submit(Long(20, 5, first.key));
  bench.Submit(Long(20, 5, second.key));
  bench.Tick();
  EXPECT_EQ(bench.MemoryOf(first.key).state, SessionState::kPrefill);
  EXPECT_EQ(bench.MemoryOf(second.key).state, SessionState::kWaiting);
  bench.Tick(3);
  EXPECT_EQ(bench.MemoryOf(first.key).state, SessionState::kDecode);
  bench.RunToEnd();
  EXPECT_EQ(bench.MemoryOf(first.key).state, SessionState::kIdle);
}

TEST(SnapshotTest, ThePoolSaysWhatItIsMadeOf) {
  EngineBench bench;
  bench.Run(Long(10, 3));
  const PoolMemory& pool = bench.snapshot().pool;
  EXPECT_EQ(pool.total_blocks, 200);
  EXPECT_EQ(pool.free_blocks, 197);
  EXPECT_EQ(pool.cached_blocks, 3);  // whole blocks, for whoever begins alike
  EXPECT_EQ(pool.charged_blocks, 0);
  EXPECT_EQ(pool.block_tokens, 4);
  EXPECT_EQ(pool.block_bytes, 4 * 2 * 16);
  EXPECT_EQ(pool.bytes_per_token, 2 * 16);
  EXPECT_EQ(pool.peak_charged_blocks, 3);
  EXPECT_EQ(pool.weights_bytes, 1000);
}

TEST(SnapshotTest, LoadCountsTokensAndTheirRate) {
  EngineBench bench;
  Reader* reader = bench.Submit(Long(10, 100));
  for (int tick = 0; tick < 40; ++tick) {
    bench.Tick();
    bench.clock().Advance(absl::Milliseconds(99));  // ten tokens a second
  }
  const Load& load = bench.snapshot().load;
  EXPECT_EQ(load.total_tokens, 40u);
  EXPECT_EQ(load.total_prompt_tokens, 10u);
  EXPECT_NEAR(load.tokens_per_s, 10, 1.5);
  EXPECT_EQ(load.running, 1u);
  EXPECT_NEAR(bench.snapshot().sessions[0].tokens_per_s, 10, 0.1);
  bench.clock().Advance(absl::Seconds(60));
  reader->stream->RequestCancel();
  bench.Tick();
  EXPECT_EQ(bench.snapshot().load.tokens_per_s, 0);
  EXPECT_EQ(bench.snapshot().load.finished, 1u);
  EXPECT_NEAR(bench.snapshot().load.uptime_s, 64, 0.1);
}

TEST(RateMeterTest, ForgetsWhatIsOlderThanItsWindow) {
  RateMeter meter;
  const absl::Time start = absl::FromUnixSeconds(1000);
  EXPECT_EQ(meter.PerSecond(start), 0);
  meter.Add(10, start);
  EXPECT_DOUBLE_EQ(meter.PerSecond(start), 10);  // over no less than a second
  meter.Add(10, start + absl::Seconds(2));
  EXPECT_DOUBLE_EQ(meter.PerSecond(start + absl::Seconds(2)), 10);
  EXPECT_DOUBLE_EQ(meter.PerSecond(start + absl::Seconds(6)),
                   2.5);  // the last ten, in four seconds
  EXPECT_EQ(meter.PerSecond(start + absl::Seconds(7)), 0);
  meter.Add(4, start + absl::Seconds(60));
  EXPECT_DOUBLE_EQ(meter.PerSecond(start + absl::Seconds(60)), 4);
}

}  // namespace
}  // namespace luna::engine
