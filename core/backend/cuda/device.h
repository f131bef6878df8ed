// What the CUDA backend needs of a device: memory, one stream, events, graphs. The CUDA runtime is
// behind it, or, in tests, an emulation on the CPU.
#ifndef LUNA_CORE_BACKEND_CUDA_DEVICE_H_
#define LUNA_CORE_BACKEND_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/backend/backend.h"

namespace luna::backend::cuda {

struct DeviceInfo {
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t shared_bytes = 0;  // that one block may have
};

// A compiled kernel and the size of its blocks.
struct Kernel {
  const char* name = "";
  const void* entry = nullptr;  // KernelEntry of kernels/platform.cuh
  int threads = 0;
};

struct Grid {
  int x = 1, y = 1, z = 1;
};

// Work goes to one stream and is done in order while the host goes on. One thread at a time.
// Statuses of all calls: RESOURCE_EXHAUSTED where memory did not suffice, the device goes on then;
// UNAVAILABLE once the device is lost (a fault in a kernel, the driver gone): all that follows
// fails alike.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual absl::StatusOr<DeviceMemoryUse> MemoryUse() = 0;

  // Aligned to 256 bytes, undefined at first. `purpose` is for the message. Free takes what
  // Allocate gave, and first waits for all work; null is nothing.
  virtual absl::StatusOr<void*> Allocate(std::string_view purpose, int64_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  // Page-locked memory of the host.
  virtual absl::StatusOr<void*> AllocateStaging(std::string_view purpose, int64_t bytes) = 0;
  virtual void FreeStaging(void* memory) = 0;

  // Brings a kernel to the device, for launches with up to `shared_bytes`, before the first of
  // them. UNIMPLEMENTED if it was not compiled for this device.
  virtual absl::Status Load(const Kernel& kernel, int64_t shared_bytes) = 0;

  // In stream order. Staging memory is read, or written, some time before an event that is recorded
  // afterwards was waited for.
  virtual absl::Status CopyIn(void* device, const void* staging, int64_t bytes) = 0;
  virtual absl::Status CopyOut(void* staging, const void* device, int64_t bytes) = 0;
  virtual absl::Status CopyWithin(void* to, const void* from, int64_t bytes) = 0;
  virtual absl::Status Fill(void* device, int byte, int64_t bytes) = 0;
  // `args` is the kernel's one argument, copied at once.
  virtual absl::Status Launch(const Kernel& kernel, const Grid& grid, int64_t shared_bytes,
                              const void* args) = 0;

  // What is asked for between the two is recorded, not done; launching the graph does it. A graph
  // lives as long as its owner; destroy it before the device.
  class Graph {
   public:
    virtual ~Graph() = default;
  };
  virtual absl::Status BeginCapture() = 0;
  virtual absl::StatusOr<std::unique_ptr<Graph>> EndCapture() = 0;
  virtual absl::Status Launch(Graph& graph) = 0;

  // Marks a place in the stream; Wait returns once all work before it was done, with what went
  // wrong in it.
  class Event {
   public:
    virtual ~Event() = default;
  };
  virtual absl::StatusOr<std::unique_ptr<Event>> MakeEvent() = 0;
  virtual absl::Status Record(Event& event) = 0;
  virtual absl::Status Wait(Event& event) = 0;
};

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_DEVICE_H_
