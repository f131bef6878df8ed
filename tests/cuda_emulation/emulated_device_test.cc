#include "tests/cuda_emulation/emulated_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_emulation/platform.h"
// The kernels' own header comes behind the platform.
#include "core/backend/cuda/kernels/platform.cuh"

namespace luna::backend::cuda {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr int kThreads = 64;

struct AddArgs {
  const float* in;  // [n]
  float* out;       // [n]
  int n;
  float add;
};

LUNA_KERNEL void Add(AddArgs args) {
  AwaitEarlierKernels();
  SyncThreads();
  const int i = BlockIndexX() * BlockThreads() + ThreadIndex();
  if (i < args.n) args.out[i] = args.in[i] + args.add;
}

const Kernel kAdd = {"add", KernelEntry<&Add>(), kThreads};

// A device with two buffers of `kValues` floats on it and two in staging memory.
class EmulatedDeviceTest : public testing::Test {
 protected:
  static constexpr int kValues = 100;
  static constexpr int64_t kBytes = kValues * 4;

  explicit EmulatedDeviceTest(int64_t total_bytes = 10000) : device_({.total_bytes = total_bytes}) {
    for (float*& each : {std::ref(a_), std::ref(b_)})
      each = Buffer(device_.Allocate("test", kBytes));
    for (float*& each : {std::ref(in_), std::ref(out_)}) {
      each = Buffer(device_.AllocateStaging("test", kBytes));
    }
    std::iota(in_, in_ + kValues, 1.0f);
    event_ = device_.MakeEvent().value();
  }
  ~EmulatedDeviceTest() override {
    device_.Free(a_);
    device_.Free(b_);
    device_.FreeStaging(in_);
    device_.FreeStaging(out_);
  }

  static float* Buffer(absl::StatusOr<void*> memory) { return static_cast<float*>(memory.value()); }

  absl::Status LaunchAdd(const float* in, float* out, float add) {
    const AddArgs args = {in, out, kValues, add};
    return device_.Launch(kAdd, {2}, 0, &args);
  }
  absl::Status Finish() {
    if (absl::Status status = device_.Record(*event_); !status.ok()) return status;
    return device_.Wait(*event_);
  }
  std::vector<float> Out() const { return {out_, out_ + kValues}; }
  static std::vector<float> From(float first) {
    std::vector<float> values(kValues);
    std::iota(values.begin(), values.end(), first);
    return values;
  }

  EmulatedDevice device_;
  float *a_ = nullptr, *b_ = nullptr, *in_ = nullptr, *out_ = nullptr;
  std::unique_ptr<Device::Event> event_;
};

// --- the queue -----------------------------------------------------------------------------------

TEST_F(EmulatedDeviceTest, WorkIsDoneInOrder) {
  ASSERT_TRUE(device_.CopyIn(a_, in_, kBytes).ok());
  ASSERT_TRUE(LaunchAdd(a_, b_, 10).ok());
  ASSERT_TRUE(device_.CopyWithin(a_, b_, kBytes).ok());
  ASSERT_TRUE(LaunchAdd(a_, b_, 10).ok());
  ASSERT_TRUE(device_.CopyOut(out_, b_, kBytes).ok());
  ASSERT_TRUE(Finish().ok());
  EXPECT_EQ(Out(), From(21));
  EXPECT_EQ(device_.counters().launches, 2);
  EXPECT_THAT(device_.counters().kernels, ElementsAre(Pair("add", 2)));
  EXPECT_EQ(device_.counters().copied_in_bytes, kBytes);
  EXPECT_EQ(device_.counters().copied_out_bytes, kBytes);
}

TEST_F(EmulatedDeviceTest, FillSetsBytes) {
  ASSERT_TRUE(device_.Fill(a_, 0, kBytes).ok());
  ASSERT_TRUE(device_.Fill(a_ + 1, 0x3f, 4).ok());
  ASSERT_TRUE(device_.CopyOut(out_, a_, kBytes).ok());
  ASSERT_TRUE(Finish().ok());
  std::vector<float> want(kValues);
  std::memset(&want[1], 0x3f, 4);
  EXPECT_EQ(Out(), want);
}

TEST_F(EmulatedDeviceTest, NothingIsDoneBeforeAnEventBehindItIsWaitedFor) {
  auto first = device_.MakeEvent().value();
  ASSERT_TRUE(device_.Wait(*first).ok());  // never recorded
  std::fill_n(out_, kValues, -1.0f);
  ASSERT_TRUE(device_.Record(*first).ok());
  ASSERT_TRUE(device_.CopyIn(a_, in_, kBytes).ok());
  ASSERT_TRUE(device_.CopyOut(out_, a_, kBytes).ok());
  EXPECT_THAT(Out(), Each(testing::IsNan()));  // read too early
  ASSERT_TRUE(device_.Wait(*first).ok());
  EXPECT_THAT(Out(), Each(testing::IsNan()));
  in_[0] = 77;  // overwritten too early
  ASSERT_TRUE(device_.Record(*first).ok());
  ASSERT_TRUE(device_.Wait(*first).ok());
  auto want = From(1);
  want[0] = 77;
  EXPECT_EQ(Out(), want);
}

TEST_F(EmulatedDeviceTest, AnEventStandsWhereItWasRecordedLast) {
  auto early = device_.MakeEvent().value();
  ASSERT_TRUE(device_.Fill(a_, 0, kBytes).ok());
  ASSERT_TRUE(device_.CopyOut(out_, a_, 4).ok());
  ASSERT_TRUE(device_.Record(*early).ok());
  ASSERT_TRUE(device_.CopyOut(out_ + 1, a_, 4).ok());
  ASSERT_TRUE(device_.Wait(*early).ok());
  EXPECT_EQ(out_[0], 0);
  EXPECT_TRUE(std::isnan(out_[1]));
  ASSERT_TRUE(device_.Record(*early).ok());
  ASSERT_TRUE(device_.Wait(*early).ok());
  EXPECT_EQ(out_[1], 0);
}

TEST_F(EmulatedDeviceTest, StagingMemoryMayGoInAndComeOutInOneGo) {
  ASSERT_TRUE(device_.CopyIn(a_, in_, kBytes).ok());
  ASSERT_TRUE(LaunchAdd(a_, b_, 1).ok());
  ASSERT_TRUE(device_.CopyOut(in_, b_, kBytes).ok());
  ASSERT_TRUE(Finish().ok());
  EXPECT_EQ(std::vector<float>(in_, in_ + kValues), From(2));
}

TEST_F(EmulatedDeviceTest, ADeviceMayBeUsedByOneThreadAndThenByAnother) {
  ASSERT_TRUE(device_.CopyIn(a_, in_, kBytes).ok());
  ASSERT_TRUE(LaunchAdd(a_, b_, 1).ok());
  ASSERT_TRUE(Finish().ok());
  std::thread([this] {
    ASSERT_TRUE(LaunchAdd(b_, a_, 1).ok());
    ASSERT_TRUE(Finish().ok());
  }).join();
  ASSERT_TRUE(LaunchAdd(a_, b_, 1).ok());
  ASSERT_TRUE(device_.CopyOut(out_, b_, kBytes).ok());
  ASSERT_TRUE(Finish().ok());
  EXPECT_EQ(Out(), From(4));
}

// --- graphs --------------------------------------------------------------------------------------

TEST_F(EmulatedDeviceTest, AGraphDoesWhatWasAskedForInItsCapture) {
  ASSERT_TRUE(device_.BeginCapture().ok());
  ASSERT_TRUE(device_.CopyIn(a_, in_, kBytes).ok());
  {
    AddArgs args = {a_, b_, kValues, 5};
    ASSERT_TRUE(device_.Launch(kAdd, {2}, 0, &args).ok());
    args.add = 1000;  // was copied
  }
  ASSERT_TRUE(device_.CopyOut(out_, b_, kBytes).ok());
  auto graph = device_.EndCapture().value();
  std::fill_n(out_, kValues, -1.0f);
  ASSERT_TRUE(Finish().ok());
  EXPECT_THAT(Out(), Each(-1));
  EXPECT_THAT(device_.counters().kernels, IsEmpty());

  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(device_.Launch(*graph).ok());
    EXPECT_THAT(Out(), Each(testing::IsNan()));
    in_[0] = static_cast<float>(i);
    ASSERT_TRUE(Finish().ok());
    auto want = From(6);
    want[0] = static_cast<float>(i + 5);
    EXPECT_EQ(Out(), want);
  }
  EXPECT_EQ(device_.counters().launches, 0);
  EXPECT_EQ(device_.counters().graph_launches, 2);
  EXPECT_THAT(device_.counters().kernels, ElementsAre(Pair("add", 2)));
}

TEST_F(EmulatedDeviceTest, AGraphMayGoBeforeItsWorkIsDone) {
  ASSERT_TRUE(device_.BeginCapture().ok());
  ASSERT_TRUE(device_.Fill(a_, 0, kBytes).ok());
  auto graph = device_.EndCapture().value();
  ASSERT_TRUE(device_.Launch(*graph).ok());
  graph.reset();
  ASSERT_TRUE(device_.CopyOut(out_, a_, kBytes).ok());
  ASSERT_TRUE(Finish().ok());
  EXPECT_THAT(Out(), Each(0));
}

// --- memory --------------------------------------------------------------------------------------

TEST_F(EmulatedDeviceTest, MemoryIsAlignedNanAndCounted) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a_) % 256, 0u);
  EXPECT_TRUE(std::isnan(a_[0]));
  EXPECT_TRUE(std::isnan(a_[kValues - 1]));
  EXPECT_EQ(device_.held_bytes(), 2 * kBytes);
  EXPECT_EQ(device_.held_staging_bytes(), 2 * kBytes);
  EXPECT_EQ(device_.MemoryUse()->total_bytes, 10000);
  EXPECT_EQ(device_.MemoryUse()->free_bytes, 10000 - 2 * kBytes);
  device_.Free(nullptr);
  device_.FreeStaging(nullptr);
}

TEST_F(EmulatedDeviceTest, WhatDoesNotFitIsRefusedWithPurposeAndBytes) {
  const absl::Status status = device_.Allocate("the KV pool", 9201).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "the KV pool needs 9201 bytes; 9200 bytes are free on emulated device");
  void* rest = device_.Allocate("the KV pool", 9200).value();
  EXPECT_EQ(device_.MemoryUse()->free_bytes, 0);
  device_.Free(rest);
  EXPECT_EQ(device_.MemoryUse()->free_bytes, 9200);
}

using EmulatedDeviceDeathTest = EmulatedDeviceTest;

TEST_F(EmulatedDeviceDeathTest, MemoryThatIsNotThere) {
  float other[1] = {};
  EXPECT_DEATH(device_.Free(other), "is freed as device memory, which it is not");
  EXPECT_DEATH(device_.Free(a_ + 1), "is freed as device memory, which it is not");
  EXPECT_DEATH(device_.Free(in_), "is freed as device memory, which it is not");
  EXPECT_DEATH(device_.FreeStaging(a_), "is freed as staging memory, which it is not");
  EXPECT_DEATH((device_.Free(a_), device_.Free(a_)), "is freed as device memory, which it is not");
  EXPECT_DEATH(device_.CopyIn(other, in_, 4).IgnoreError(),
               "CopyIn: 4 bytes at .* are not in device memory");
  EXPECT_DEATH(device_.CopyIn(a_, other, 4).IgnoreError(),
               "CopyIn: 4 bytes at .* are not in staging memory");
  EXPECT_DEATH(device_.CopyIn(a_ + 1, in_, kBytes).IgnoreError(),
               "CopyIn: bytes 4 to 404 of device memory for test, which has 400");
  EXPECT_DEATH(device_.CopyOut(out_ + 1, a_, kBytes).IgnoreError(),
               "CopyOut: bytes 4 to 404 of staging memory for test, which has 400");
  EXPECT_DEATH(device_.Fill(a_, 0, kBytes + 1).IgnoreError(),
               "Fill: bytes 0 to 401 of device memory for test, which has 400");
}

TEST_F(EmulatedDeviceDeathTest, WhatIsLeftAtTheEnd) {
  const auto leak = [] {
    EmulatedDevice device;
    static_cast<void>(device.Allocate("the logits", 12));
  };
  EXPECT_DEATH(leak(), "1 allocations of device memory, 12 bytes, .*one is the logits");
  const auto outlived = [] {
    auto device = std::make_unique<EmulatedDevice>();
    const auto event = device->MakeEvent();
    device.reset();
  };
  EXPECT_DEATH(outlived(), "1 graphs or events outlive their device");
}

TEST_F(EmulatedDeviceDeathTest, WhatCannotBeCaptured) {
  ASSERT_TRUE(device_.BeginCapture().ok());
  EXPECT_DEATH(static_cast<void>(device_.Allocate("test", 4)), "an allocation cannot be captured");
  EXPECT_DEATH(device_.Record(*event_).IgnoreError(), "an event cannot be captured");
  EXPECT_DEATH(device_.Wait(*event_).IgnoreError(), "a wait cannot be captured");
  EXPECT_DEATH(device_.BeginCapture().IgnoreError(), "a capture cannot be captured");
  EXPECT_DEATH(device_.Free(a_), "giving memory back cannot be captured");
  ASSERT_TRUE(device_.EndCapture().ok());
  EXPECT_DEATH(static_cast<void>(device_.EndCapture()), "no capture has begun");
}

TEST_F(EmulatedDeviceDeathTest, LaunchesThatNoDeviceTakes) {
  const AddArgs args = {};
  const auto launch = [&](int threads, const Grid& grid, int64_t shared_bytes) {
    const Kernel kernel = {"add", KernelEntry<&Add>(), threads};
    device_.Launch(kernel, grid, shared_bytes, &args).IgnoreError();
  };
  EXPECT_DEATH(launch(33, {1}, 0), "add with blocks of 33 threads");
  EXPECT_DEATH(launch(2048, {1}, 0), "add with blocks of 2048 threads");
  EXPECT_DEATH(launch(64, {0}, 0), "add over 0 x 1 x 1 blocks");
  EXPECT_DEATH(launch(64, {1, 65536}, 0), "add over 1 x 65536 x 1 blocks");
  EXPECT_DEATH(launch(64, {1}, 300000), "add with 300000 bytes of shared memory of 232448");
}

LUNA_KERNEL void ReturnUnawaited(AddArgs) {
  if (ThreadIndex() != 7) AwaitEarlierKernels();
}

LUNA_KERNEL void AwaitAgain(AddArgs) {
  AwaitEarlierKernels();
  AwaitEarlierKernels();
}

// On a device kernels overlap.
TEST_F(EmulatedDeviceDeathTest, KernelsThatDoNotAwaitEarlierOnesOnce) {
  const AddArgs args = {};
  const auto run = [&](const void* entry) {
    device_.Launch({"odd", entry, kThreads}, {2}, 0, &args).IgnoreError();
    Finish().IgnoreError();
  };
  EXPECT_DEATH(run(KernelEntry<&ReturnUnawaited>()),
               "kernel odd, block .*, thread 7: returns without AwaitEarlierKernels");
  EXPECT_DEATH(run(KernelEntry<&AwaitAgain>()), "awaits earlier kernels again at .*:[0-9]+");
}

// --- faults --------------------------------------------------------------------------------------

TEST_F(EmulatedDeviceTest, TheAllocationThatIsToFailFailsAndNoOther) {
  device_.FailAllocation(2);
  void* first = device_.Allocate("one", 8).value();
  const absl::Status status = device_.AllocateStaging("two", 8).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("two"), HasSubstr("8 bytes")));
  void* third = device_.AllocateStaging("three", 8).value();
  device_.Free(first);
  device_.FreeStaging(third);
}

TEST_F(EmulatedDeviceTest, ALaunchThatFailsIsNotDoneAndTheDeviceGoesOn) {
  ASSERT_TRUE(device_.BeginCapture().ok());
  ASSERT_TRUE(device_.Fill(b_, 0, kBytes).ok());
  auto graph = device_.EndCapture().value();
  ASSERT_TRUE(device_.CopyIn(a_, in_, kBytes).ok());
  device_.FailLaunch(2);
  EXPECT_TRUE(LaunchAdd(a_, b_, 1).ok());
  EXPECT_EQ(device_.Launch(*graph).code(), absl::StatusCode::kInternal);
  device_.FailLaunch(1);
  EXPECT_EQ(LaunchAdd(b_, a_, 1).code(), absl::StatusCode::kInternal);
  ASSERT_TRUE(device_.CopyOut(out_, b_, kBytes).ok());
  ASSERT_TRUE(Finish().ok());
  EXPECT_EQ(Out(), From(2));
  EXPECT_EQ(device_.counters().launches, 1);
  EXPECT_EQ(device_.counters().graph_launches, 0);
}

TEST_F(EmulatedDeviceTest, ALostDeviceFailsFromTheWaitOn) {
  ASSERT_TRUE(device_.BeginCapture().ok());
  ASSERT_TRUE(device_.Fill(b_, 0, kBytes).ok());
  auto graph = device_.EndCapture().value();

  device_.LoseAt(3);
  ASSERT_TRUE(device_.CopyIn(a_, in_, kBytes).ok());
  ASSERT_TRUE(device_.Launch(*graph).ok());
  ASSERT_TRUE(Finish().ok());
  ASSERT_TRUE(LaunchAdd(a_, b_, 1).ok());
  ASSERT_TRUE(device_.Record(*event_).ok());

  const absl::Status lost = device_.Wait(*event_);
  EXPECT_EQ(lost, absl::UnavailableError("emulated device is lost"));
  EXPECT_THAT(device_.counters().kernels, IsEmpty());
  EXPECT_EQ(device_.Wait(*event_), lost);
  EXPECT_EQ(device_.Record(*event_), lost);
  EXPECT_EQ(LaunchAdd(a_, b_, 1), lost);
  EXPECT_EQ(device_.Launch(*graph), lost);
  EXPECT_EQ(device_.CopyIn(a_, in_, kBytes), lost);
  EXPECT_EQ(device_.CopyOut(out_, a_, kBytes), lost);
  EXPECT_EQ(device_.CopyWithin(b_, a_, kBytes), lost);
  EXPECT_EQ(device_.Fill(a_, 0, kBytes), lost);
  EXPECT_EQ(device_.Allocate("test", 4).status(), lost);
  EXPECT_EQ(device_.AllocateStaging("test", 4).status(), lost);
  EXPECT_EQ(device_.MemoryUse().status(), lost);
  EXPECT_EQ(device_.BeginCapture(), lost);
  EXPECT_EQ(device_.EndCapture().status(), lost);
  EXPECT_EQ(device_.MakeEvent().status(), lost);
}

}  // namespace
}  // namespace luna::backend::cuda
