#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "core/base/check.h"
#include "tests/benchmarks/device_limits.h"

namespace luna::backend::cuda {
namespace {

constexpr int kRounds = 15;
constexpr int kKernels = 1000;  // of a graph whose gaps are measured
constexpr int kWideThreads = 256;
constexpr size_t kWithinBytes = size_t{1} << 30;
constexpr size_t kAcrossBytes = size_t{256} << 20;
constexpr size_t kSmallBytes = 4 << 10;

void Check(cudaError_t error, const char* what) {
  LUNA_CHECK(error == cudaSuccess) << what << ": " << cudaGetErrorString(error);
}

__global__ void Nothing() {}

struct Shape {
  int blocks, threads, shared_bytes;
};

// Everything is freed with the process.
class Meter {
 public:
  Meter() {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    Check(cudaEventCreate(&begin_), "event");
    Check(cudaEventCreate(&end_), "event");
  }

  cudaStream_t stream() const { return stream_; }

  void Launch(const Shape& shape) {
    Nothing<<<shape.blocks, shape.threads, shape.shared_bytes, stream_>>>();
    Check(cudaGetLastError(), "kernel");
  }

  cudaGraphExec_t Record(const Shape& shape, int kernels) {
    Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < kernels; ++i) Launch(shape);
    cudaGraph_t graph = nullptr;
    Check(cudaStreamEndCapture(stream_, &graph), "capture");
    cudaGraphExec_t ready = nullptr;
    Check(cudaGraphInstantiate(&ready, graph, 0), "graph");
    Check(cudaGraphDestroy(graph), "graph");
    return ready;
  }

  // Of the device, for all that `work` asks of the stream: median of kRounds, after one that does
  // not count.
  double DeviceMicroseconds(const std::function<void()>& work) {
    return Median([&] {
      Check(cudaEventRecord(begin_, stream_), "event");
      work();
      Check(cudaEventRecord(end_, stream_), "event");
      Check(cudaEventSynchronize(end_), "work");
      float milliseconds = 0;
      Check(cudaEventElapsedTime(&milliseconds, begin_, end_), "event");
      return 1e3 * milliseconds;
    });
  }

  // Of the host, for `work` and, if `wait`, until the stream is done.
  double HostMicroseconds(bool wait, const std::function<void()>& work) {
    return Median([&] {
      const auto start = std::chrono::steady_clock::now();
      work();
      if (wait) {
        Check(cudaEventRecord(end_, stream_), "event");
        Check(cudaEventSynchronize(end_), "work");
      }
      const std::chrono::duration<double, std::micro> taken =
          std::chrono::steady_clock::now() - start;
      Check(cudaStreamSynchronize(stream_), "work");
      return taken.count();
    });
  }

 private:
  static double Median(const std::function<double()>& measure) {
    measure();
    std::vector<double> measured;
    for (int i = 0; i < kRounds; ++i) measured.push_back(measure());
    std::sort(measured.begin(), measured.end());
    return measured[measured.size() / 2];
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// 1e9 bytes a second of `bytes` in so many microseconds.
double Rate(double bytes, double microseconds) { return bytes / microseconds / 1e3; }

void MeasureGraphs(Meter& meter, const Shape& wide, DeviceLimits& limits) {
  const Shape small = {.blocks = 1, .threads = 32, .shared_bytes = 0};
  const auto gap = [&](const Shape& shape) {
    cudaGraphExec_t graph = meter.Record(shape, kKernels);
    const double us =
        meter.DeviceMicroseconds([&] { Check(cudaGraphLaunch(graph, meter.stream()), "graph"); });
    Check(cudaGraphExecDestroy(graph), "graph");
    return us / kKernels;
  };
  limits.graph_node_us = gap(small);
  limits.wide_graph_node_us = gap(wide);
  limits.stream_kernel_us = meter.DeviceMicroseconds([&] {
    for (int i = 0; i < kKernels; ++i) meter.Launch(small);
  }) / kKernels;

  cudaGraphExec_t one = meter.Record(small, 1);
  const auto launch = [&] { Check(cudaGraphLaunch(one, meter.stream()), "graph"); };
  limits.graph_launch_us = meter.HostMicroseconds(false, launch);
  limits.graph_round_trip_us = meter.HostMicroseconds(true, launch);

  void *device = nullptr, *host = nullptr;
  Check(cudaMalloc(&device, kSmallBytes), "memory");
  Check(cudaMallocHost(&host, kSmallBytes), "memory");
  limits.step_round_trip_us = meter.HostMicroseconds(true, [&] {
    Check(cudaMemcpyAsync(device, host, kSmallBytes, cudaMemcpyHostToDevice, meter.stream()), "in");
    launch();
    Check(cudaMemcpyAsync(host, device, kSmallBytes, cudaMemcpyDeviceToHost, meter.stream()),
          "out");
  });
}

void MeasureCopies(Meter& meter, DeviceLimits& limits) {
  void *from = nullptr, *to = nullptr, *host = nullptr;
  Check(cudaMalloc(&from, kWithinBytes), "memory");
  Check(cudaMalloc(&to, kWithinBytes), "memory");
  Check(cudaMallocHost(&host, kAcrossBytes), "memory");
  Check(cudaMemsetAsync(from, 1, kWithinBytes, meter.stream()), "fill");
  const auto copy = [&](void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
    return meter.DeviceMicroseconds(
        [&] { Check(cudaMemcpyAsync(target, source, bytes, kind, meter.stream()), "copy"); });
  };
  limits.copy_within_gb_s =
      Rate(2.0 * kWithinBytes, copy(to, from, kWithinBytes, cudaMemcpyDeviceToDevice));
  limits.copy_in_gb_s = Rate(kAcrossBytes, copy(to, host, kAcrossBytes, cudaMemcpyHostToDevice));
  limits.copy_out_gb_s = Rate(kAcrossBytes, copy(host, from, kAcrossBytes, cudaMemcpyDeviceToHost));
  Check(cudaFree(from), "memory");
  Check(cudaFree(to), "memory");
  Check(cudaFreeHost(host), "memory");
}

}  // namespace

DeviceLimits MeasureDeviceLimits(int multiprocessors, int shared_bytes) {
  Check(cudaFuncSetAttribute(Nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
        "kernel");
  Meter meter;
  DeviceLimits limits;
  MeasureGraphs(meter,
                {.blocks = multiprocessors, .threads = kWideThreads, .shared_bytes = shared_bytes},
                limits);
  MeasureCopies(meter, limits);
  return limits;
}

}  // namespace luna::backend::cuda
