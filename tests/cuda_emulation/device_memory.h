// The allocations of an emulated device and of the host's staging memory.
#ifndef LUNA_TESTS_CUDA_EMULATION_DEVICE_MEMORY_H_
#define LUNA_TESTS_CUDA_EMULATION_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace luna::backend::cuda::emulation {

// Each is memory of its own from the system, so that AddressSanitizer sees its bounds and its end;
// undefined (kUndefined) at first. What no device could be asked stops the program. At the end
// nothing may be left.
class DeviceMemory {
 public:
  // `kind` is for messages: "device memory".
  explicit DeviceMemory(std::string_view kind) : kind_(kind) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  // Aligned to 256 bytes; at least one byte.
  void* Allocate(std::string_view purpose, int64_t bytes);
  // Returns how many bytes `memory` had, which Allocate gave; it must not have been freed.
  int64_t Free(void* memory);

  // Stops where [memory, memory + bytes) is not within one allocation.
  void CheckRange(std::string_view what, const void* memory, int64_t bytes) const;
  int64_t held_bytes() const { return held_bytes_; }

 private:
  struct Allocation {
    int64_t bytes = 0;
    std::string purpose;
  };

  std::string kind_;
  std::map<const std::byte*, Allocation> allocations_;  // by where they begin
  int64_t held_bytes_ = 0;
};

}  // namespace luna::backend::cuda::emulation

#endif  // LUNA_TESTS_CUDA_EMULATION_DEVICE_MEMORY_H_
