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
#include "tests/backend/cuda/kernel_runner.h"
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

// Where the kernel's memory lies, and what runs it.
class Place {
 public:
  virtual ~Place() = default;
  // As Bytes.
  virtual std::byte* Allocate(int64_t bytes) = 0;
  virtual void Write(std::byte* to, const void* from, int64_t bytes) = 0;
  virtual std::vector<std::byte> Read(const std::byte* from, int64_t bytes) = 0;
  virtual void Run(int threads, int blocks, const SampleArgs& args) = 0;
};

class EmulatedPlace final : public Place {
 public:
  std::byte* Allocate(int64_t bytes) override { return memory_.emplace_back(bytes).get(); }
  void Write(std::byte* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  std::vector<std::byte> Read(const std::byte* from, int64_t bytes) override {
    return {from, from + bytes};
  }
  void Run(int threads, int blocks, const SampleArgs& args) override {
    threads == 64 ? Launch<64>(blocks, args) : Launch<kSampleThreads>(blocks, args);
  }

 private:
  template <int kThreads>
  static void Launch(int blocks, const SampleArgs& args) {
    // Once for all launches: what costs is to make its stacks.
    static emulation::GridRunner& runner = *new emulation::GridRunner(/*seed=*/1);
    runner.Run({"SampleRows", KernelEntry<&SampleRows<kThreads>>(), kThreads}, {.x = blocks},
               kSampleSharedBytes<kThreads>, &args);
  }

  std::vector<Bytes> memory_;
};

// Has the kernel in the one size of block that steps take.
class GpuPlace final : public Place {
 public:
  std::byte* Allocate(int64_t bytes) override {
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    return runner_.Put(std::vector<std::byte>(size, std::byte{0xA5}));
  }
  void Write(std::byte* to, const void* from, int64_t bytes) override {
    if (bytes == 0) return;
    const auto* begin = static_cast<const std::byte*>(from);
    runner_.Write(to, std::vector<std::byte>(begin, begin + bytes));
  }
  std::vector<std::byte> Read(const std::byte* from, int64_t bytes) override {
    return runner_.Get(from, static_cast<size_t>(bytes));
  }
  void Run(int /*threads*/, int blocks, const SampleArgs& args) override {
    runner_.Run(TestKernels().sample, {.x = blocks}, args);
  }

 private:
  KernelRunner runner_;
};

std::unique_ptr<Place> MakePlace() {
  if (TestsRunOnGpu()) return std::make_unique<GpuPlace>();
  return std::make_unique<EmulatedPlace>();
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
  int most_top = 0;  // of a row
  std::vector<sample::SampleSpec> specs;
  for (int i = 0; i < num_rows; ++i) {
    specs.push_back(rows[i].Spec(num_rows - 1 - i));
    most_top = std::max(most_top, rows[i].params.num_logprobs);
  }

  SamplePacker packer(vocab);
  const int64_t fixed_bytes = SamplePacker::FixedBytes(num_rows);
  const int64_t list_bytes = packer.ListBytes(specs);
  const Bytes staging(fixed_bytes + list_bytes);
  const std::unique_ptr<Place> place = MakePlace();
  std::byte* const input = place->Allocate(fixed_bytes + list_bytes);
  std::byte* const lists = options.far_lists ? place->Allocate(list_bytes) : input + fixed_bytes;
  const int64_t packed = packer.Pack(specs, staging.get(), staging.get() + fixed_bytes, lists);
  EXPECT_LE(packed, list_bytes);
  place->Write(input, staging.get(), fixed_bytes);
  place->Write(lists, staging.get() + fixed_bytes, packed);

  std::vector<float> logits(size_t(num_rows) * stride, kNan);
  for (int i = 0; i < num_rows; ++i) {
    std::ranges::copy(rows[i].logits, logits.begin() + int64_t{i} * stride);
  }
  const std::vector<int32_t> tokens_before = TokensBefore(rows);
  const auto put = [&](const auto& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(values[0]));
    std::byte* const at = place->Allocate(bytes);
    place->Write(at, values.data(), bytes);
    return at;
  };
  const SampleResultsLayout layout(num_rows, int64_t{num_rows} * most_top);
  std::byte* const results = place->Allocate(layout.bytes());
  const SampleArgs args = {.header = reinterpret_cast<const SampleHeader*>(input),
                           .logits = reinterpret_cast<float*>(put(logits)),
                           .tokens_before = reinterpret_cast<const int32_t*>(put(tokens_before)),
                           .results = layout.At(results),
                           .vocab_size = vocab,
                           .vocab_stride = stride};
  place->Run(options.threads, options.blocks > 0 ? options.blocks : num_rows, args);

  std::vector<std::byte> read = place->Read(results, layout.bytes());
  std::vector<sample::SampledToken> out;
  UnpackSamples(staging.get(), vocab, layout.At(read.data()), out);
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
