// The device that tests of the CUDA backend run on: the emulation; or, where the environment has
// LUNA_TEST_DEVICE=cuda, a GPU with the kernels that nvcc compiled.
#ifndef LUNA_TESTS_BACKEND_TEST_DEVICE_H_
#define LUNA_TESTS_BACKEND_TEST_DEVICE_H_

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "core/backend/cuda/device.h"
#include "core/backend/cuda/kernel_set.h"
#include "core/backend/cuda/runtime/cuda_device.h"
#include "core/base/check.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/cuda_emulation/kernels/kernels.h"

namespace luna::backend::cuda {

inline bool TestsRunOnGpu() {
  const char* const value = std::getenv("LUNA_TEST_DEVICE");
  const std::string_view device = value == nullptr ? "" : value;
  LUNA_CHECK(device.empty() || device == "cuda") << "LUNA_TEST_DEVICE is " << device;
  return device == "cuda";
}

// `emulated` is for the emulation alone. Stops where there is no GPU and one was asked for.
inline std::unique_ptr<Device> MakeTestDevice(const EmulatedDeviceOptions& emulated = {}) {
  if (!TestsRunOnGpu()) return std::make_unique<EmulatedDevice>(emulated);
  auto device = OpenCudaDevice();
  LUNA_CHECK(device.ok()) << device.status();
  return *std::move(device);
}

inline const KernelSet& TestKernels() {
  return TestsRunOnGpu() ? CompiledKernels() : EmulatedKernels();
}

// As the backend names it among its numerics: "sm_90".
inline std::string TestDevicePath() {
  const DeviceInfo info = MakeTestDevice()->info();
  return "sm_" + std::to_string(info.major) + std::to_string(info.minor);
}

}  // namespace luna::backend::cuda

#endif  // LUNA_TESTS_BACKEND_TEST_DEVICE_H_
