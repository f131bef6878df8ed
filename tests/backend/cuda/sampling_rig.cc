#include "tests/backend/cuda/sampling_rig.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/cuda_emulation/platform.h"
// Kernels come behind the platform.
#include "core/backend/cuda/device.h"
#include "core/backend/cuda/kernels/sampling.cuh"
#include "core/backend/cuda/sampling.h"
#include "tests/cuda_emulation/grid_runner.h"

namespace luna::backend::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Aligned to 16 bytes and not a byte more, full of what is no sensible number.
class Bytes {
 public:
  explicit Bytes(int64_t size) : memory_(new (std::align_val_t{16}) std::byte[size]) {
    std::memset(memory_.get(), 0xA5, size);
  }
  std::byte* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { operator delete[](p, std::align_val_t{16}); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
};

template <int kThreads>
void Launch(int blocks, const SampleArgs& args) {
  // Once for all launches: what costs is to make its stacks.
  static emulation::GridRunner& runner = *new emulation::GridRunner(/*seed=*/1);
  runner.Run({"SampleRows", KernelEntry<&SampleRows<kThreads>>(), kThreads}, {.x = blocks},
             kSampleSharedBytes<kThreads>, &args);
}

// The tokens of the step before: where a row says -1, one that nobody has.
std::vector<int32_t> TokensBefore(std::span<const SampleCase> rows) {
  std::vector<int32_t> tokens(rows.size(), std::numeric_limits<int32_t>::min());
  // In the opposite order, so that an index is not its row's.
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].pending >= 0) tokens[rows.size() - 1 - i] = rows[i].pending;
  }
  return tokens;
}

}  // namespace

sample::SampleSpec SampleCase::Spec(int pending_index) const {
  return {.params = &params,
          .seed = seed,
          .position = position,
          .prompt = prompt,
          .output = output,
          .masked = masked,
          .pending = pending >= 0 ? pending_index : -1};
}

std::vector<sample::SampledToken> SampleOnDevice(std::span<const SampleCase> rows,
                                                 const RigOptions& options) {
  const int num_rows = static_cast<int>(rows.size());
  const int vocab = static_cast<int>(rows[0].logits.size());
  const int stride = (vocab + 3) / 4 * 4 + 4 * (vocab % 3);
  int top_capacity = std::max(options.top_capacity, 0);
  std::vector<sample::SampleSpec> specs;
  for (int i = 0; i < num_rows; ++i) {
    specs.push_back(rows[i].Spec(num_rows - 1 - i));
    if (options.top_capacity < 0) {
      top_capacity = std::max(top_capacity, rows[i].params.num_logprobs);
    }
  }

  SamplePacker packer(vocab);
  const int64_t fixed_bytes = SamplePacker::FixedBytes(num_rows);
  const int64_t list_bytes = packer.ListBytes(specs);
  const Bytes staging(fixed_bytes + list_bytes), device(fixed_bytes + list_bytes), far(list_bytes);
  std::byte* lists = options.far_lists ? far.get() : device.get() + fixed_bytes;
  const int64_t packed = packer.Pack(specs, staging.get(), staging.get() + fixed_bytes, lists);
  EXPECT_LE(packed, list_bytes);
  std::memcpy(device.get(), staging.get(), fixed_bytes);
  std::memcpy(lists, staging.get() + fixed_bytes, packed);

  const Bytes logits(int64_t{num_rows} * stride * 4);
  auto* values = reinterpret_cast<float*>(logits.get());
  std::fill(values, values + int64_t{num_rows} * stride, kNan);
  for (int i = 0; i < num_rows; ++i) {
    std::ranges::copy(rows[i].logits, values + int64_t{i} * stride);
  }
  const std::vector<int32_t> tokens_before = TokensBefore(rows);
  const SampleResultsLayout layout(num_rows, top_capacity);
  const Bytes results(layout.bytes());
  const SampleArgs args = {.header = reinterpret_cast<const SampleHeader*>(device.get()),
                           .logits = values,
                           .tokens_before = tokens_before.data(),
                           .results = layout.At(results.get()),
                           .vocab_size = vocab,
                           .vocab_stride = stride,
                           .top_capacity = top_capacity};
  const int blocks = options.blocks > 0 ? options.blocks : num_rows;
  options.threads == 64 ? Launch<64>(blocks, args) : Launch<kSampleThreads>(blocks, args);

  std::vector<sample::SampledToken> out;
  UnpackSamples(PackedRows(staging.get()), vocab, args.results, top_capacity, out);
  return out;
}

sample::SampledToken SampleByReference(const SampleCase& row) {
  SampleCase known = row;
  if (row.pending >= 0) known.output.push_back(row.pending);
  known.pending = -1;
  sample::Sampler sampler(static_cast<int>(row.logits.size()));
  sample::SampledToken out;
  sampler.Sample(known.logits, known.Spec(-1), out);
  return out;
}

void ExpectEqual(const sample::SampledToken& device, const sample::SampledToken& reference,
                 const std::string& name) {
  const auto close = [](float a, float b) {
    return a == b || std::abs(a - b) <= 1e-6f * std::max(1.0f, std::abs(b));
  };
  EXPECT_EQ(device.status, reference.status) << name;
  EXPECT_EQ(device.token, reference.token) << name;
  EXPECT_TRUE(close(device.logprob, reference.logprob))
      << name << ": " << device.logprob << " for " << reference.logprob;
  ASSERT_EQ(device.top.size(), reference.top.size()) << name;
  for (size_t i = 0; i < device.top.size(); ++i) {
    EXPECT_EQ(device.top[i].token, reference.top[i].token) << name << ", candidate " << i;
    EXPECT_TRUE(close(device.top[i].logprob, reference.top[i].logprob))
        << name << ", candidate " << i << ": " << device.top[i].logprob << " for "
        << reference.top[i].logprob;
  }
}

void ExpectSame(const sample::SampledToken& a, const sample::SampledToken& b,
                const std::string& name) {
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  EXPECT_EQ(a.status, b.status) << name;
  EXPECT_EQ(a.token, b.token) << name;
  EXPECT_EQ(bits(a.logprob), bits(b.logprob)) << name;
  ASSERT_EQ(a.top.size(), b.top.size()) << name;
  for (size_t i = 0; i < a.top.size(); ++i) {
    EXPECT_EQ(a.top[i].token, b.top[i].token) << name << ", candidate " << i;
    EXPECT_EQ(bits(a.top[i].logprob), bits(b.top[i].logprob)) << name << ", candidate " << i;
  }
}

}  // namespace luna::backend::cuda
