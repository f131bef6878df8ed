// Speed of the kernels alone, of every code path that this machine has, on one thread.
//   luna-kernel-bench [--benchmark_filter=REGEX] ...
// Multiply/PATH/FORMAT/rows/inputs: 24 matrices of 2^20 products in turn, as many as Luna's shape
// has of that size, so that they come from where a model's weights do; ops are 2 a product, to
// compare with the peaks that `luna-machine-peaks` measures.
// Attend/PATH/DTYPE/heads/sequences: a token's query heads of one kv head, of 64 dimensions, over
// 256 cached positions in blocks of 16. One sequence stays in a core's cache; 512 in turn do not.
// Prepare, Norm: one row of 512.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/cpu/int8_format.h"
#include "core/backend/cpu/kernels.h"
#include "core/backend/mapped_memory.h"
#include "core/base/check.h"
#include "tests/backend/random_values.h"

namespace luna::backend::cpu {
namespace {

constexpr int kInputs = 512;  // of a row that is prepared
constexpr int kMatrices = 24, kProducts = 1 << 20;
constexpr int kHeadDim = 64, kBlockTokens = 16, kPositions = 256;

MappedMemory MustAllocate(int64_t bytes) {
  auto memory = MappedMemory::Allocate("benchmark", bytes);
  LUNA_CHECK(memory.ok()) << memory.status();
  return *std::move(memory);
}

// With tails as heavy as those of real activations: half of all groups have a value that stands
// out.
std::vector<float> RandomRow(int inputs, uint32_t seed) {
  std::vector<float> row = Random(inputs, seed);
  for (float& value : row) value *= std::sqrt(std::abs(value));
  return row;
}

void Multiply(benchmark::State& state, const Product& product) {
  const int rows = static_cast<int>(state.range(0)), inputs = static_cast<int>(state.range(1));
  const int outputs = kProducts / inputs, panels = outputs / kPanel;
  const int64_t panel_bytes = product.panel_bytes(inputs), matrix_bytes = panels * panel_bytes;
  const MappedMemory weights = MustAllocate(kMatrices * matrix_bytes);
  const std::vector<std::byte> q4(Int8Groups(inputs) * 20, std::byte{0x35});  // Q4_1
  const std::vector<Q4Row> q4_rows(kPanel, Q4Row{.blocks = q4.data(), .has_min = true});
  for (int p = 0; p < panels; ++p) {
    std::byte* panel = weights.data() + p * panel_bytes;
    if (product.pack_q4 != nullptr) {
      product.pack_q4(std::span<const Q4Row, kPanel>(q4_rows), inputs, panel);
    } else {
      product.pack(Random(int64_t{kPanel} * inputs, p).data(), inputs, panel);
    }
  }
  for (int m = 1; m < kMatrices; ++m) {
    std::memcpy(weights.data() + m * matrix_bytes, weights.data(), matrix_bytes);
  }
  const bool prepared = product.prepare != nullptr;
  const int64_t stride = prepared ? product.row_bytes(inputs) : inputs * sizeof(float);
  const MappedMemory a = MustAllocate(rows * stride),
                     out = MustAllocate(int64_t{rows} * outputs * 4);
  for (int r = 0; r < rows; ++r) {
    const std::vector<float> row = RandomRow(inputs, 1000 + r);
    if (prepared) {
      product.prepare(row.data(), inputs, 0, inputs, a.data() + r * stride);
    } else {
      std::memcpy(a.data() + r * stride, row.data(), stride);
    }
  }
  int matrix = 0;
  for (auto _ : state) {
    product.multiply({.a = a.data(),
                      .a_stride = stride,
                      .rows = rows,
                      .panels = weights.data() + matrix * matrix_bytes,
                      .inputs = inputs,
                      .panel_begin = 0,
                      .panel_end = panels,
                      .bias = nullptr,
                      .out = reinterpret_cast<float*>(out.data()),
                      .out_stride = outputs});
    benchmark::ClobberMemory();
    matrix = (matrix + 1) % kMatrices;
  }
  state.counters["ops"] =
      benchmark::Counter(2.0 * rows * kProducts * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

void Prepare(benchmark::State& state, const Product& product) {
  const std::vector<float> row = RandomRow(kInputs, 1);
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
    const Products& products = kernels->products;
    for (const auto& [format, product] : {std::pair{"f32", &products.f32},
                                          {"bf16", &products.fast.bf16},
                                          {"int8", &products.fast.int8},
                                          {"int4", &products.fast.int4},
                                          {"int8precise", &products.precise.int8}}) {
      const std::string name = path + "/" + format;
      benchmark::RegisterBenchmark(("Multiply/" + name).c_str(), Multiply, *product)
          ->ArgsProduct({{1, 8, 30, 64, 512}, {512, 2048}});
      if (product->prepare == nullptr) continue;
      benchmark::RegisterBenchmark(("Prepare/" + name).c_str(), Prepare, *product);
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
