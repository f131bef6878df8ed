// Runs a kernel over its grid.
#ifndef LUNA_TESTS_CUDA_EMULATION_GRID_RUNNER_H_
#define LUNA_TESTS_CUDA_EMULATION_GRID_RUNNER_H_

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "core/backend/cuda/device.h"
#include "tests/cuda_emulation/sanitizers.h"
#include "tests/cuda_emulation/team.h"

namespace luna::backend::cuda::emulation {

// Blocks run one after the other, in a random order, and so do the warps and lanes of each as far
// as they do not wait: the same one for the same seed. Shared memory is exactly what was asked for,
// and undefined (kUndefined) at first. One thread at a time.
class GridRunner {
 public:
  explicit GridRunner(uint64_t seed) : random_(seed) {}

  // Returns when all is done. `args` is the kernel's argument. A kernel that overlaps with others
  // has to await those before: else it stops, and so does ThreadSanitizer where one of its threads
  // touches before that what they touched. To that it goes on until Join, or Run, returns again;
  // so long `args` stays.
  void Run(const Kernel& kernel, const Grid& grid, int64_t shared_bytes, const void* args,
           bool overlaps = false);
  // Has ThreadSanitizer see what overlaps as done before what follows on this thread.
  void Join();

 private:
  // To ThreadSanitizer blocks of two teams run at the same time, so that it sees what orders them
  // and what does not.
  static constexpr int kTeams = kThreadSanitizer ? 2 : 1;

  struct Freed {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using SharedMemory = std::unique_ptr<std::byte, Freed>;

  std::mt19937_64 random_;
  std::vector<int64_t> order_;               // of the blocks
  std::array<SharedMemory, kTeams> shared_;  // of the teams' blocks
  std::array<Team, kTeams> teams_;
  Beginning beginning_;
  size_t runs_ = 0;
};

}  // namespace luna::backend::cuda::emulation

#endif  // LUNA_TESTS_CUDA_EMULATION_GRID_RUNNER_H_
