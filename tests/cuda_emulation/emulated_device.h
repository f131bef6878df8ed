// A device that is the CPU: for kernels that were compiled behind platform.h, and for all that can
// go wrong with one.
#ifndef LUNA_TESTS_CUDA_EMULATION_EMULATED_DEVICE_H_
#define LUNA_TESTS_CUDA_EMULATION_EMULATED_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/backend/cuda/device.h"
#include "tests/cuda_emulation/device_memory.h"
#include "tests/cuda_emulation/grid_runner.h"

namespace luna::backend::cuda {

struct EmulatedDeviceOptions {
  DeviceInfo info = {.name = "emulated device",
                     .major = 9,
                     .minor = 0,
                     .multiprocessors = 8,
                     .shared_bytes = 227 << 10};
  int64_t total_bytes = int64_t{4} << 30;  // staging memory does not count
  uint64_t seed = 1;                       // of the order in which blocks and threads run
};

// Work is done as late as a device may do it: in the Wait for an event that was recorded behind it,
// and never if nobody waits. Where CopyOut is to write, staging memory is undefined until then.
// What contradicts the contract of Device (memory that is not there, work in a capture that cannot
// be captured, a graph or event that outlives the device) stops the program.
class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(const EmulatedDeviceOptions& options = {});
  ~EmulatedDevice() override;

  const DeviceInfo& info() const override { return options_.info; }
  absl::StatusOr<DeviceMemoryUse> MemoryUse() override;
  absl::StatusOr<void*> Allocate(std::string_view purpose, int64_t bytes) override;
  void Free(void* memory) override;
  absl::StatusOr<void*> AllocateStaging(std::string_view purpose, int64_t bytes) override;
  void FreeStaging(void* memory) override;
  absl::Status Load(const Kernel& kernel, int64_t shared_bytes) override;
  absl::Status CopyIn(void* device, const void* staging, int64_t bytes) override;
  absl::Status CopyOut(void* staging, const void* device, int64_t bytes) override;
  absl::Status CopyWithin(void* to, const void* from, int64_t bytes) override;
  absl::Status Fill(void* device, int byte, int64_t bytes) override;
  absl::Status Launch(const Kernel& kernel, const Grid& grid, int64_t shared_bytes,
                      const void* args) override;
  absl::Status BeginCapture() override;
  absl::StatusOr<std::unique_ptr<Graph>> EndCapture() override;
  absl::Status Launch(Graph& graph) override;
  absl::StatusOr<std::unique_ptr<Event>> MakeEvent() override;
  absl::Status Record(Event& event) override;
  absl::Status Wait(Event& event) override;

  // Faults, each once; the next call or piece of work is number 1, and 0 is none.
  // RESOURCE_EXHAUSTED from an Allocate or AllocateStaging.
  void FailAllocation(int number) { failing_allocation_ = number; }
  // INTERNAL from a Launch of a kernel or graph, captured or not; the device goes on.
  void FailLaunch(int number) { failing_launch_ = number; }
  // A piece of work (a copy, a fill, a kernel; those of graphs count each) that is not done and
  // takes the device with it: UNAVAILABLE from the Wait that comes to it and from all later calls.
  void LoseAt(int number) { losing_work_ = number; }

  struct Counters {
    // Asked for: kernels outside of graphs, and graphs.
    int64_t launches = 0, graph_launches = 0;
    // Done, graphs included: kernels by name, bytes copied.
    std::map<std::string, int64_t, std::less<>> kernels;
    int64_t copied_in_bytes = 0, copied_out_bytes = 0;
  };
  const Counters& counters() const { return counters_; }
  int64_t held_bytes() const { return memory_.held_bytes(); }
  int64_t held_staging_bytes() const { return staging_.held_bytes(); }

 private:
  enum class Direction { kIn, kOut, kWithin };
  struct CopyWork {
    Direction direction;
    void* to;
    const void* from;
    int64_t bytes;
  };
  struct FillWork {
    void* to;
    int byte;
    int64_t bytes;
  };
  struct LaunchWork {
    Kernel kernel;
    Grid grid;
    int64_t shared_bytes;
    std::shared_ptr<const std::vector<std::byte>> args;
  };
  using Work = std::variant<CopyWork, FillWork, LaunchWork>;
  class Dependent;
  struct EmulatedGraph;
  struct EmulatedEvent;

  absl::Status Status() const;  // OK, or what became of the device
  absl::StatusOr<void*> AllocateFrom(emulation::DeviceMemory& memory, std::string_view purpose,
                                     int64_t bytes, int64_t free_bytes);
  void FreeFrom(emulation::DeviceMemory& memory, void* address);
  void CheckNotCapturing(std::string_view what) const;
  // Into the graph that is captured, or the queue.
  absl::Status Take(Work work);
  void Enqueue(const Work& work);
  void DoUpTo(uint64_t behind);  // as many pieces of work
  void Check(const Work& work) const;
  void Do(const CopyWork& copy);
  void Do(const FillWork& fill);
  void Do(const LaunchWork& launch);

  const EmulatedDeviceOptions options_;
  emulation::DeviceMemory memory_{"device memory"}, staging_{"staging memory"};
  // Of the kernel that ran last, which to ThreadSanitizer may be running still.
  std::shared_ptr<const std::vector<std::byte>> running_args_;
  emulation::GridRunner runner_;
  std::deque<Work> queue_;
  uint64_t queued_ = 0, done_ = 0;  // pieces of work so far
  std::unique_ptr<EmulatedGraph> captured_;
  int dependents_ = 0;  // graphs and events
  bool lost_ = false;
  int failing_allocation_ = 0, failing_launch_ = 0, losing_work_ = 0;
  Counters counters_;
};

}  // namespace luna::backend::cuda

#endif  // LUNA_TESTS_CUDA_EMULATION_EMULATED_DEVICE_H_
