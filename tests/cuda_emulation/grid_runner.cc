#include "tests/cuda_emulation/grid_runner.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "core/base/check.h"
#include "tests/cuda_emulation/undefined.h"

namespace luna::backend::cuda::emulation {
namespace {

struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using SharedMemory = std::unique_ptr<std::byte, Freed>;

SharedMemory AllocateShared(int64_t bytes) {
  if (bytes == 0) return nullptr;
  SharedMemory memory(static_cast<std::byte*>(std::malloc(bytes)));
  LUNA_CHECK(memory != nullptr) << bytes << " bytes of shared memory";
  return memory;
}

}  // namespace

void GridRunner::Run(const Kernel& kernel, const Grid& grid, int64_t shared_bytes,
                     const void* args) {
  Block block;
  block.kernel = kernel.name;
  block.entry = static_cast<const Entry*>(kernel.entry);
  block.args = args;
  block.grid_x = grid.x;
  block.threads = kernel.threads;
  block.shared_bytes = shared_bytes;
  order_.resize(int64_t{grid.x} * grid.y * grid.z);
  std::iota(order_.begin(), order_.end(), 0);
  std::shuffle(order_.begin(), order_.end(), random_);

  SharedMemory shared[kTeams];
  if (kThreadSanitizer) {
    // An allocation is an access to it; it has to come before all threads' own.
    for (auto& each : shared) each = AllocateShared(shared_bytes);
  }
  Release(&begin_);
  for (size_t i = 0; i < order_.size(); ++i) {
    const int64_t index = order_[i];
    block.x = static_cast<int>(index % grid.x);
    block.y = static_cast<int>(index / grid.x % grid.y);
    block.z = static_cast<int>(index / grid.x / grid.y);
    block.order = random_();
    SharedMemory& memory = shared[i % kTeams];
    if (!kThreadSanitizer) {
      memory.reset();
      memory = AllocateShared(shared_bytes);
    }
    MakeUndefined(memory.get(), shared_bytes);
    block.shared = memory.get();
    teams_[i % kTeams].Run(block, &begin_);
  }
  for (Team& team : teams_) team.Join();
}

}  // namespace luna::backend::cuda::emulation
