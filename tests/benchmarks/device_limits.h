// What a GPU can do at most, as far as steps of small models are bound by it: how close kernels
// stand in a graph, and how fast bytes are copied.
#ifndef LUNA_TESTS_BENCHMARKS_DEVICE_LIMITS_H_
#define LUNA_TESTS_BENCHMARKS_DEVICE_LIMITS_H_

namespace luna::backend::cuda {

// Microseconds and GB/s (10^9), each the median of several measurements.
struct DeviceLimits {
  // From one empty kernel of a graph to the next; kernels of one small block, and of a block with
  // the most shared memory on every multiprocessor.
  double graph_node_us = 0, wide_graph_node_us = 0;
  // The same for kernels that are launched one by one.
  double stream_kernel_us = 0;
  // What the host takes to launch a graph of one kernel, and until it has seen the end of it.
  double graph_launch_us = 0, graph_round_trip_us = 0;
  // 4 KiB copied in, a graph of one kernel, 4 KiB copied out, until the host has seen the end.
  double step_round_trip_us = 0;
  // Within the device's memory, bytes read and written; from and to page-locked memory.
  double copy_within_gb_s = 0, copy_in_gb_s = 0, copy_out_gb_s = 0;
};

// On the current device, which has `multiprocessors`. Stops the program where CUDA fails.
DeviceLimits MeasureDeviceLimits(int multiprocessors, int shared_bytes);

}  // namespace luna::backend::cuda

#endif  // LUNA_TESTS_BENCHMARKS_DEVICE_LIMITS_H_
