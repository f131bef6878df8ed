// Runs single kernels on the device that tests run on.
#ifndef LUNA_TESTS_BACKEND_CUDA_KERNEL_RUNNER_H_
#define LUNA_TESTS_BACKEND_CUDA_KERNEL_RUNNER_H_

#include <cstring>
#include <memory>
#include <vector>

#include "core/backend/cuda/device_memory.h"
#include "core/backend/cuda/kernel_set.h"
#include "core/base/check.h"
#include "tests/backend/test_device.h"

namespace luna::backend::cuda {

// Owns what is put on the device until its end.
class KernelRunner {
 public:
  explicit KernelRunner(const EmulatedDeviceOptions& emulated = {})
      : device_(MakeTestDevice(emulated)), event_(Must(device_->MakeEvent())) {}

  template <typename T>
  T* Put(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    memory_.push_back(Must(DeviceMemory::Allocate(*device_, "test", bytes)));
    Write(memory_.back().as<T>(), values);
    return memory_.back().as<T>();
  }
  // Over what Put gave.
  template <typename T>
  void Write(T* to, const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    StagingMemory staging = Must(StagingMemory::Allocate(*device_, "test", bytes));
    std::memcpy(staging.as(), values.data(), static_cast<size_t>(bytes));
    Must(device_->CopyIn(to, staging.as(), bytes));
    Wait();
  }
  template <typename T>
  std::vector<T> Get(const T* values, size_t count) {
    const auto bytes = static_cast<int64_t>(count * sizeof(T));
    StagingMemory staging = Must(StagingMemory::Allocate(*device_, "test", bytes));
    Must(device_->CopyOut(staging.as(), values, bytes));
    Wait();
    return {staging.as<T>(), staging.as<T>() + count};
  }
  template <typename Args>
  void Run(const SizedKernel& kernel, const Grid& grid, const Args& args) {
    Must(device_->Launch(kernel.kernel, grid, kernel.shared_bytes, &args));
    Wait();
  }

  Device& device() { return *device_; }

 private:
  static void Must(const absl::Status& status) { LUNA_CHECK(status.ok()) << status; }
  template <typename T>
  static T Must(absl::StatusOr<T> value) {
    LUNA_CHECK(value.ok()) << value.status();
    return *std::move(value);
  }
  void Wait() {
    Must(device_->Record(*event_));
    Must(device_->Wait(*event_));
  }

  const std::unique_ptr<Device> device_;
  std::unique_ptr<Device::Event> event_;
  std::vector<DeviceMemory> memory_;
};

}  // namespace luna::backend::cuda

#endif  // LUNA_TESTS_BACKEND_CUDA_KERNEL_RUNNER_H_
