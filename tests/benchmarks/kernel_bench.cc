// Speed of the kernels alone, of every code path that this machine has, on one thread.
//   luna-kernel-bench [--benchmark_filter=REGEX] ...
// Multiply/PATH/FORMAT/rows: a matrix of 512 inputs and 2,048 outputs, which a core's cache holds;
// ops are 2 a product, to compare with the peaks that `luna-machine-peaks` measures.
// Attend/PATH/DTYPE/heads/sequences: a token's query heads of one kv head, of 64 dimensions, over
// 256 cached positions in blocks of 16. One sequence stays in a core's cache; 512 in turn do not.
// Prepare, Norm: one row of 512.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "core/backend/cpu/kernels.h"
#include "core/backend/mapped_memory.h"
#include "core/base/check.h"
#include "tests/backend/random_values.h"

namespace luna::backend::cpu {
namespace {

constexpr int kInputs = 512, kOutputs = 2048, kMaxRows = 512;
constexpr int kHeadDim = 64, kBlockTokens = 16, kPositions = 256;

MappedMemory MustAllocate(int64_t bytes) {
  auto memory = MappedMemory::Allocate("benchmark", bytes);
  LUNA_CHECK(memory.ok()) << memory.status();
  return *std::move(memory);
}

void Multiply(benchmark::State& state, const Product& product) {
  const int rows = static_cast<int>(state.range(0));
  const int panels = kOutputs / kPanel;
  const int64_t panel_bytes = product.panel_bytes(kInputs);
  const MappedMemory weights = MustAllocate(panels * panel_bytes);
  for (int p = 0; p < panels; ++p) {
    product.pack(Random(int64_t{kPanel} * kInputs, p).data(), kInputs,
                 weights.data() + p * panel_bytes);
  }
  const bool prepared = product.prepare != nullptr;
  const int64_t stride = prepared ? product.row_bytes(kInputs) : kInputs * sizeof(float);
  const MappedMemory a = MustAllocate(rows * stride), out = MustAllocate(rows * kOutputs * 4);
  for (int r = 0; r < rows; ++r) {
    const std::vector<float> row = Random(kInputs, 1000 + r);
    if (prepared) {
      product.prepare(row.data(), kInputs, 0, kInputs, a.data() + r * stride);
    } else {
      std::memcpy(a.data() + r * stride, row.data(), stride);
    }
  }
  for (auto _ : state) {
    product.multiply({.a = a.data(),
                      .a_stride = stride,
                      .rows = rows,
                      .panels = weights.data(),
                      .inputs = kInputs,
                      .panel_begin = 0,
                      .panel_end = panels,
                      .bias = nullptr,
                      .out = reinterpret_cast<float*>(out.data()),
                      .out_stride = kOutputs});
    benchmark::ClobberMemory();
  }
  state.counters["ops"] =
      benchmark::Counter(2.0 * rows * kInputs * kOutputs * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

void Prepare(benchmark::State& state, const Product& product) {
  const std::vector<float> row = Random(kInputs, 1);
  std::vector<std::byte> out(product.row_bytes(kInputs));
  for (auto _ : state) {
    product.prepare(row.data(), kInputs, 0, kInputs, out.data());
    benchmark::ClobberMemory();
  }
}

void Attend(benchmark::State& state, const KvFormat& format, KvDtype dtype) {
  constexpr int kKvHeads = 8, kLayers = 8;  // of a block; one layer is attended to
  const int heads = static_cast<int>(state.range(0));
  const int sequences = static_cast<int>(state.range(1));
  const int blocks = kPositions / kBlockTokens;
  const int64_t half = KvHeadBytes(dtype, kHeadDim) * kBlockTokens;
  const int64_t block_stride = kLayers * kKvHeads * 2 * half;
  const MappedMemory pool = MustAllocate(block_stride * blocks * sequences);
  std::vector<int32_t> table;
  const std::vector<float> kv = Random(2 * kHeadDim, 3);
  for (int b = 0; b < blocks * sequences; ++b) {
    table.push_back(b);
    for (int i = 0; i < kKvHeads * kBlockTokens; ++i) {
      std::byte* keys = pool.data() + b * block_stride + i / kBlockTokens * 2 * half;
      format.store(kv.data(), kv.data() + kHeadDim, kHeadDim, kBlockTokens, i % kBlockTokens, keys,
                   keys + half);
    }
  }
  const std::vector<float> q = Random(int64_t{heads} * kHeadDim, 5);
  std::vector<float> out(q.size()), scores(int64_t{heads} * 512);
  int call = 0;  // the kv heads of a sequence, then the next sequence
  for (auto _ : state) {
    format.attend({.q = q.data(),
                   .q_stride = heads * kHeadDim,
                   .out = out.data(),
                   .out_stride = heads * kHeadDim,
                   .tokens = 1,
                   .heads = heads,
                   .head_dim = kHeadDim,
                   .position = kPositions - 1,
                   .scale = 0.125f,
                   .keys = pool.data() + call % kKvHeads * 2 * half,
                   .values_offset = half,
                   .block_stride = block_stride,
                   .table = table.data() + call / kKvHeads * blocks,
                   .block_tokens = kBlockTokens,
                   .scores = scores.data(),
                   .score_stride = 512});
    benchmark::ClobberMemory();
    call = (call + 1) % (kKvHeads * sequences);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * 2 * half * blocks);
}

void Norm(benchmark::State& state, const Kernels& kernels) {
  const std::vector<float> x = Random(kInputs, 1), weight = Random(kInputs, 2);
  std::vector<float> out(kInputs);
  for (auto _ : state) {
    kernels.layer_norm(x.data(), weight.data(), weight.data(), 1e-5f, kInputs, out.data());
    benchmark::ClobberMemory();
  }
}

void RegisterAll() {
  for (const Kernels* kernels : AvailableKernels()) {
    const std::string path(kernels->name);
    for (const auto format : {WeightsFormat::kF32, WeightsFormat::kBf16, WeightsFormat::kInt8}) {
      const Product& product = kernels->products.Of(format, false);
      const std::string name = path + "/" + std::string(WeightsFormatName(format));
      benchmark::RegisterBenchmark(("Multiply/" + name).c_str(), Multiply, product)
          ->Arg(1)
          ->Arg(8)
          ->Arg(30)
          ->Arg(64)
          ->Arg(kMaxRows);
      if (product.prepare == nullptr) continue;
      benchmark::RegisterBenchmark(("Prepare/" + name).c_str(), Prepare, product);
    }
    for (const auto dtype : {KvDtype::kF32, KvDtype::kBf16, KvDtype::kInt8}) {
      const std::string name = "Attend/" + path + "/" + std::string(KvDtypeName(dtype));
      benchmark::RegisterBenchmark(name.c_str(), Attend, kernels->kv_formats.Of(dtype), dtype)
          ->ArgsProduct({{1, 3}, {1, 64}});
    }
    benchmark::RegisterBenchmark(("Norm/" + path).c_str(), Norm, *kernels);
  }
}

}  // namespace
}  // namespace luna::backend::cpu

int main(int argc, char** argv) {
  luna::backend::cpu::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
