// The host's side of sampling on the device: what a step's samples depend on, packed for one copy
// in, and what came of them, read after one copy back. The kernel is kernels/sampling.cuh.
//
// A step needs two pieces of memory. One of a fixed size and place, which captured graphs know: the
// header and the rows. The other holds the lists of the rows that have penalties, biases or masks;
// the header says where it lies. It may follow the first, so that one copy takes both, or be
// elsewhere in a step whose lists are too large for that.
#ifndef LUNA_CORE_BACKEND_CUDA_SAMPLING_H_
#define LUNA_CORE_BACKEND_CUDA_SAMPLING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/backend/cuda/kernels/sampling_args.h"
#include "core/sample/sampler.h"

namespace luna::backend::cuda {

// One thread. Keeps its scratch between calls: packing allocates nothing.
class SamplePacker {
 public:
  explicit SamplePacker(int vocab_size) : edits_of_(vocab_size, kNone) {}

  static constexpr int64_t FixedBytes(int max_rows) { return SampleHeader::Bytes(max_rows); }

  // As many as the lists of `specs` can need, a multiple of 16. Cheap: it looks at sizes alone, as
  // if no token occurred twice.
  int64_t ListBytes(std::span<const sample::SampleSpec> specs) const;

  // Writes header and rows to `fixed` [FixedBytes(specs.size())] and the lists to `lists`
  // [ListBytes(specs)], both staging memory aligned to 16 bytes; `device_lists` is where the kernel
  // will find the lists. Returns how many bytes of them there are.
  int64_t Pack(std::span<const sample::SampleSpec> specs, std::byte* fixed, std::byte* lists,
               std::byte* device_lists);

 private:
  static constexpr int32_t kNone = -1;

  // The lists of one row behind what is there; `edits` and `biases` are those of all rows.
  void PackEdits(const sample::SampleSpec& spec, SampleRow& row);
  SampleEdit& EditOf(TokenId token, SampleRow& row);

  std::vector<int32_t> edits_of_;  // [vocab_size] a token's edit in the row; kNone between rows
  SampleEdit* edits_ = nullptr;    // of the lists that are written
  SampleBias* biases_ = nullptr;
  int32_t num_edits_ = 0;
  int32_t num_biases_ = 0;
};

// Where the results lie in one piece of memory, on the device and in the staging memory that gets
// its copy; tokens are first.
class SampleResultsLayout {
 public:
  // `max_top`: candidates of all rows together.
  SampleResultsLayout(int max_rows, int64_t max_top) : max_rows_(max_rows), max_top_(max_top) {}

  int64_t max_top() const { return max_top_; }
  int64_t bytes() const;
  // `memory` is aligned to 16 bytes.
  SampleResults At(std::byte* memory) const;

 private:
  int64_t max_rows_;
  int64_t max_top_;
};

// How many bytes of SampleResults::top the rows that Pack wrote to `fixed` have.
int64_t TopBytes(const std::byte* fixed);

// What the kernel found for the rows that Pack wrote to `fixed`: statuses and messages are those of
// sample::Sampler. `results` are in the host's memory. `out` is reused.
void UnpackSamples(const std::byte* fixed, int vocab_size, const SampleResults& results,
                   std::vector<sample::SampledToken>& out);

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_SAMPLING_H_
