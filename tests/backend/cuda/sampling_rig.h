// Samples rows with the kernel, on the device that tests run on, and with the reference.
#ifndef LUNA_TESTS_BACKEND_CUDA_SAMPLING_RIG_H_
#define LUNA_TESTS_BACKEND_CUDA_SAMPLING_RIG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/sample/sampler.h"

namespace luna::backend::cuda {

// One sample and all that its spec borrows.
struct SampleCase {
  std::string name;
  std::vector<float> logits;
  sample::SamplingParams params = {};
  uint64_t seed = 0, position = 0;
  std::vector<TokenId> prompt = {}, output = {}, masked = {};
  TokenId pending = -1;  // the token after `output`, if the host has not read it; else -1

  // `pending_index`: where the step before put the pending token.
  sample::SampleSpec Spec(int pending_index) const;
};

struct RigOptions {
  int threads = 512;       // 64 or 512 a block; on a GPU always 512
  int blocks = 0;          // 0: one a row
  bool far_lists = false;  // the lists are not behind the rows
};

// All rows in one launch. They have one vocabulary. Memory has exactly the sizes that were
// promised, and what nobody wrote is not zero.
std::vector<sample::SampledToken> SampleOnDevice(std::span<const SampleCase> rows,
                                                 const RigOptions& options = {});

// With the pending token in the output.
sample::SampledToken SampleByReference(const SampleCase& row);

// The same token, status and message, the same candidates; log-probabilities within 1e-6 (of their
// size, where that is above 1).
void ExpectEqual(const sample::SampledToken& device, const sample::SampledToken& reference,
                 const std::string& name);
// To the bit.
void ExpectSame(const sample::SampledToken& a, const sample::SampledToken& b,
                const std::string& name);

}  // namespace luna::backend::cuda

#endif  // LUNA_TESTS_BACKEND_CUDA_SAMPLING_RIG_H_
