#include "tests/cuda_emulation/grid_runner.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"
#include "tests/cuda_emulation/undefined.h"

namespace luna::backend::cuda::emulation {
namespace {

std::byte* AllocateShared(int64_t bytes) {
  if (bytes == 0) return nullptr;
  auto* memory = static_cast<std::byte*>(std::malloc(bytes));
  LUNA_CHECK(memory != nullptr) << bytes << " bytes of shared memory";
  return memory;
}

}  // namespace

void GridRunner::Run(const Kernel& kernel, const Grid& grid, int64_t shared_bytes, const void* args,
                     bool overlaps) {
  Block block;
  block.kernel = kernel.name;
  block.entry = static_cast<const Entry*>(kernel.entry);
  block.args = args;
  block.grid_x = grid.x;
  block.threads = kernel.threads;
  block.shared_bytes = shared_bytes;
  block.overlaps = overlaps;
  order_.resize(int64_t{grid.x} * grid.y * grid.z);
  std::iota(order_.begin(), order_.end(), 0);
  std::shuffle(order_.begin(), order_.end(), random_);

  // To ThreadSanitizer giving and taking back are accesses: one block's follow the other's, those
  // of this kernel come before its threads' own and after those of the kernel before.
  std::array<SharedMemory, kTeams> shared;
  if (kThreadSanitizer) {
    for (SharedMemory& each : shared) each.reset(AllocateShared(shared_bytes));
  }
  Release(&beginning_.launch);
  Join();
  shared_.swap(shared);
  Release(&beginning_.earlier);
  for (size_t i = 0; i < order_.size(); ++i) {
    const int64_t index = order_[i];
    block.x = static_cast<int>(index % grid.x);
    block.y = static_cast<int>(index / grid.x % grid.y);
    block.z = static_cast<int>(index / grid.x / grid.y);
    block.order = random_();
    // Not always the same team first: two blocks of one team are never seen to overlap.
    const size_t team = (i + runs_) % kTeams;
    SharedMemory& memory = shared_[team];
    if (!kThreadSanitizer) {
      memory.reset();
      memory.reset(AllocateShared(shared_bytes));
    }
    MakeUndefined(memory.get(), shared_bytes);
    block.shared = memory.get();
    teams_[team].Run(block, beginning_);
  }
  ++runs_;
  if (!overlaps) Join();
}

void GridRunner::Join() {
  for (Team& team : teams_) team.Join();
}

}  // namespace luna::backend::cuda::emulation
