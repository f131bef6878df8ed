// The threads of one block as fibers, which run in turn: one goes on until it waits for another.
#ifndef LUNA_TESTS_CUDA_EMULATION_TEAM_H_
#define LUNA_TESTS_CUDA_EMULATION_TEAM_H_

#include <array>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "tests/cuda_emulation/copy_queue.h"
#include "tests/cuda_emulation/fiber.h"
#include "tests/cuda_emulation/kernel_calls.h"

namespace luna::backend::cuda::emulation {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllOfWarp = 0xffffffffu;
inline constexpr int kMostThreads = 1024;  // of a block

// Where threads wait for each other.
enum class Operation {
  kSyncThreads,
  kSyncWarp,
  kShuffleXor,
  kShuffleFrom,
  kMmaBf16,
  kLoadMatrices,
  kLoadMatricesTransposed
};

struct Warp {
  // Masks of lanes: wait in a warp operation, wait in SyncThreads, have returned. Of a lane that is
  // in none, the next step can be taken.
  uint32_t in_operation = 0, at_barrier = 0, returned = 0;
  Operation operation{};  // of those in one
  Where where;
  std::array<void*, kLanes> operands{};
  char sync[2] = {};  // for ThreadSanitizer: SyncWarp, the even and the odd ones
};

class Team;

struct Thread : Place {
  Team* team = nullptr;
  Warp* warp = nullptr;
  int lane = 0;
  Fiber fiber;
  CopyQueue copies;
  bool fenced = false;   // GlobalFence in this block
  bool awaited = false;  // AwaitEarlierKernels
  uint32_t warp_syncs = 0, block_syncs = 0;
};

// One block: what its threads run.
struct Block {
  const char* kernel = "";
  const Entry* entry = nullptr;
  const void* args = nullptr;
  int x = 0, y = 0, z = 0, grid_x = 0;
  int threads = 0;  // a multiple of kLanes
  std::byte* shared = nullptr;
  int64_t shared_bytes = 0;
  uint64_t order = 0;     // any number: which threads go first
  bool overlaps = false;  // a thread that returns without AwaitEarlierKernels stops the program
};

// To ThreadSanitizer a block begins after all that was done before `launch` was released, and goes
// on, where it awaits earlier kernels, after all that was done before `earlier` was.
struct Beginning {
  char launch = 0, earlier = 0;
};

// Its fibers and their stacks live as long as the team. One block at a time.
class Team {
 public:
  Team();
  ~Team();

  // Returns when all threads of the block have returned. To ThreadSanitizer a block begins after
  // the team's blocks before, too.
  void Run(const Block& block, Beginning& beginning);
  // Has ThreadSanitizer see the team's blocks as done before what follows.
  void Join();

  // --- for the thread that runs ---

  // Returns once all lanes of the warp have come: true in the one that came last, before any other
  // goes on, so that it can work for all of them on `operands` (in Warp, by lane).
  bool Gather(Thread& thread, Operation operation, Where where, void* operands);
  void AwaitEarlierKernels(Thread& thread, Where where);
  void SyncThreads(Thread& thread, Where where);
  void SyncWarp(Thread& thread, Where where);
  const Block& block() const { return block_; }

  // "kernel attention, block (0, 3, 1)".
  std::string Name() const;

 private:
  static Fiber* ThreadBody(void* thread);
  void Prepare(int threads);
  // Not inlined: a fiber may go on in another thread of the system, whose `place` is another.
  [[gnu::noinline]] void Return(Thread& thread);
  void SwitchTo(Fiber& from, Thread& to);
  // The next thread after `thread`, which waits or has returned, that can go on.
  Thread& NextOfWarp(Thread& thread);
  Thread& NextOfBlock(Thread& thread);
  [[noreturn]] void Diverged(const Thread& thread, const std::string& at);
  std::string AnyOther(const Thread& thread) const;

  Block block_;
  std::vector<std::unique_ptr<Thread>> threads_;  // all that were ever needed
  std::vector<Warp> warps_;
  uint32_t open_warps_ = 0;  // a mask of those with a lane that can go on
  int at_barrier_ = 0, returned_ = 0;
  Where barrier_where_;
  bool backwards_ = false, stopping_ = false;
  Fiber host_;
  Beginning* beginning_ = nullptr;
  // For ThreadSanitizer: SyncThreads, and the ends of blocks, in turn.
  char sync_[2] = {}, ends_[2] = {};
  uint32_t blocks_ = 0;
};

// The thread of a kernel that runs here.
inline Thread& Current() { return *static_cast<Thread*>(place); }

// Stops the program: "kernel attention, block (0, 3, 1), thread 5: `message` at attention.cuh:33".
[[noreturn]] void StopKernel(const Thread& thread, const std::string& message, Where where);
std::string ToString(Where where);

}  // namespace luna::backend::cuda::emulation

#endif  // LUNA_TESTS_CUDA_EMULATION_TEAM_H_
