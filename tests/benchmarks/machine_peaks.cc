// What this machine can do at most, with one thread and with all: products of each number format,
// reading RAM, and reading as much as the weights of a small model. Prints one JSON object; each
// figure is the best of some rounds.
//   luna-machine-peaks
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "core/backend/cpu/cpu_count.h"
#include "core/base/check.h"
#include "tests/benchmarks/peak_kernels.h"

namespace luna::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr int kRounds = 5;
constexpr double kRoundSeconds = 0.05;
constexpr size_t kRamBytes = size_t{1} << 30;  // at most; several times any level of cache
constexpr size_t kCacheBytes = 24u << 20;

double SecondsBetween(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// Seconds from the first start to the last end of body(thread) on `num_threads` threads that start
// together.
double TimeTogether(int num_threads, const std::function<void(int)>& body) {
  std::barrier ready(num_threads);
  std::vector<Clock::time_point> starts(num_threads), ends(num_threads);
  const auto run = [&](int thread) {
    ready.arrive_and_wait();
    starts[thread] = Clock::now();
    body(thread);
    ends[thread] = Clock::now();
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < num_threads; ++i) threads.emplace_back(run, i);
  run(0);
  for (std::thread& thread : threads) thread.join();
  return SecondsBetween(*std::min_element(starts.begin(), starts.end()),
                        *std::max_element(ends.begin(), ends.end()));
}

// In 1e9 operations a second.
double Operations(const PeakLoop& loop, int num_threads) {
  int64_t iterations = 1000;
  while (TimeTogether(1, [&](int) { loop.run(iterations); }) < kRoundSeconds) iterations *= 2;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double seconds = TimeTogether(num_threads, [&](int) { loop.run(iterations); });
    best =
        std::max(best, loop.operations * static_cast<double>(iterations) * num_threads / seconds);
  }
  return best / 1e9;
}

// Memory that each thread has written its part of, so that it has pages of its own.
class Buffer {
 public:
  Buffer(size_t bytes, int num_threads)
      : part_(bytes / num_threads / kReadBytes * kReadBytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), std::free) {
    LUNA_CHECK(data_ != nullptr) << "no memory for " << bytes << " bytes";
    TimeTogether(num_threads, [&](int thread) {
      std::fill_n(data_.get() + thread * part_, part_, std::byte{1});
    });
  }
  const std::byte* part(int thread) const { return data_.get() + thread * part_; }
  size_t part_bytes() const { return part_; }

 private:
  const size_t part_;
  const std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

// In GB/s over all threads, each of which reads its own part.
double ReadRate(const PeakKernels& kernels, size_t bytes, int num_threads) {
  const Buffer buffer(bytes, num_threads);
  const int repeats = static_cast<int>(std::max<size_t>(1, (size_t{512} << 20) / bytes));
  std::vector<uint64_t> hashes(num_threads);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double seconds = TimeTogether(num_threads, [&](int thread) {
      for (int i = 0; i < repeats; ++i) {
        hashes[thread] += kernels.read(buffer.part(thread), buffer.part_bytes());
      }
    });
    best =
        std::max(best, static_cast<double>(buffer.part_bytes()) * num_threads * repeats / seconds);
  }
  return best / 1e9;
}

size_t RamBytes() {
  const auto free =
      static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::min(kRamBytes, free / 2) / 4096 * 4096;
}

Json Measure(const PeakKernels& kernels, int num_threads) {
  const auto operations = [&](const PeakLoop& loop) {
    return loop.run == nullptr ? Json(nullptr) : Json(Operations(loop, num_threads));
  };
  return {{"threads", num_threads},
          {"f32_gflops", operations(kernels.f32)},
          {"bf16_gflops", operations(kernels.bf16)},
          {"int8_gops", operations(kernels.int8)},
          {"ram_gb_s", ReadRate(kernels, RamBytes(), num_threads)},
          {"read_24mb_gb_s", ReadRate(kernels, kCacheBytes, num_threads)}};
}

int Main() {
  const PeakKernels& kernels = BestPeakKernels();
  const auto name = [](const PeakLoop& loop) {
    return loop.instruction == nullptr ? Json(nullptr) : Json(loop.instruction);
  };
  Json json = {
      {"path", kernels.path},
      {"instructions",
       {{"f32", name(kernels.f32)}, {"bf16", name(kernels.bf16)}, {"int8", name(kernels.int8)}}},
      {"ram_bytes_read", RamBytes()},
      {"peaks", Json::array()}};
  const int all = backend::cpu::UsableCpus();
  json["peaks"].push_back(Measure(kernels, 1));
  if (all > 1) json["peaks"].push_back(Measure(kernels, all));
  std::puts(json.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace luna::benchmarks

int main() { return luna::benchmarks::Main(); }
