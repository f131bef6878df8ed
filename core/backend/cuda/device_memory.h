// Owners of a device's memory, and the way into it.
#ifndef LUNA_CORE_BACKEND_CUDA_DEVICE_MEMORY_H_
#define LUNA_CORE_BACKEND_CUDA_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "core/backend/cuda/device.h"
#include "core/base/status_macros.h"

namespace luna::backend::cuda {

// Where the array behind `bytes` of others in one allocation begins: at what the widest loads need.
constexpr int64_t Aligned(int64_t bytes) { return (bytes + 15) / 16 * 16; }

// Movable; freed with its owner, before the device.
template <bool kOnDevice>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  OwnedMemory(OwnedMemory&& other) noexcept { *this = std::move(other); }
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~OwnedMemory() {
    if (data_ == nullptr) return;
    if constexpr (kOnDevice) {
      device_->Free(data_);
    } else {
      device_->FreeStaging(data_);
    }
  }
  // `purpose` is for the message where it does not suffice.
  static absl::StatusOr<OwnedMemory> Allocate(Device& device, std::string_view purpose,
                                              int64_t bytes) {
    OwnedMemory memory;
    if constexpr (kOnDevice) {
      LUNA_ASSIGN_OR_RETURN(memory.data_, device.Allocate(purpose, bytes));
    } else {
      LUNA_ASSIGN_OR_RETURN(memory.data_, device.AllocateStaging(purpose, bytes));
    }
    memory.device_ = &device;
    memory.bytes_ = bytes;
    return memory;
  }

  template <typename T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

using DeviceMemory = OwnedMemory<true>;
using StagingMemory = OwnedMemory<false>;  // page-locked memory of the host

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_DEVICE_MEMORY_H_
