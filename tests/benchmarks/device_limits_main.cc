// Says which GPU is there and, unless asked for that alone, what it can do at most, as JSON.
//   luna-device-limits [--device]
// Exits with 2 and one line on standard error where there is none that Luna can use.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "core/backend/cuda/runtime/cuda_device.h"
#include "tests/benchmarks/device_limits.h"

namespace luna::backend::cuda {
namespace {

using Json = nlohmann::ordered_json;

// "13.0" of 13000.
std::string Version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

Json Describe(Device& device) {
  const DeviceInfo& info = device.info();
  int driver = 0, runtime = 0, l2_bytes = 0, clock_khz = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, 0);
  cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0);
  Json json = {
      {"name", info.name},
      {"compute_capability", std::to_string(info.major) + "." + std::to_string(info.minor)},
      {"multiprocessors", info.multiprocessors},
      {"shared_bytes", info.shared_bytes},
      {"l2_bytes", l2_bytes},
      {"clock_mhz", clock_khz / 1000},
      {"driver_cuda", Version(driver)},
      {"runtime_cuda", Version(runtime)}};
  if (const auto use = device.MemoryUse(); use.ok()) {
    json["memory_bytes"] = use->total_bytes;
    json["free_bytes"] = use->free_bytes;
  }
  return json;
}

Json Measure(const DeviceInfo& info) {
  const DeviceLimits limits =
      MeasureDeviceLimits(info.multiprocessors, static_cast<int>(info.shared_bytes));
  return {{"graph_node_us", limits.graph_node_us},
          {"wide_graph_node_us", limits.wide_graph_node_us},
          {"stream_kernel_us", limits.stream_kernel_us},
          {"graph_launch_us", limits.graph_launch_us},
          {"graph_round_trip_us", limits.graph_round_trip_us},
          {"step_round_trip_us", limits.step_round_trip_us},
          {"copy_within_gb_s", limits.copy_within_gb_s},
          {"copy_in_gb_s", limits.copy_in_gb_s},
          {"copy_out_gb_s", limits.copy_out_gb_s}};
}

int Main(bool device_alone) {
  const auto device = OpenCudaDevice();
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", std::string(device.status().message()).c_str());
    return 2;
  }
  Json json = {{"device", Describe(**device)}};
  if (!device_alone) json["limits"] = Measure((*device)->info());
  std::puts(json.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace luna::backend::cuda

int main(int argc, char** argv) {
  return luna::backend::cuda::Main(argc > 1 && std::strcmp(argv[1], "--device") == 0);
}
