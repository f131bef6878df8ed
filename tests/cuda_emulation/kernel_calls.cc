#include "tests/cuda_emulation/kernel_calls.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "tests/cuda_emulation/matrices.h"
#include "tests/cuda_emulation/sanitizers.h"
#include "tests/cuda_emulation/team.h"

namespace luna::backend::cuda::emulation {
namespace {

struct ShuffleOperands {
  uint64_t bits;  // the lane's value, then what it gets
  int from;       // lane
};

uint64_t Shuffle(Operation operation, uint64_t bits, int from, Where where) {
  Thread& thread = Current();
  ShuffleOperands mine = {bits, from};
  if (thread.team->Gather(thread, operation, where, &mine)) {
    uint64_t all[kLanes];
    const auto& operands = thread.warp->operands;
    for (int i = 0; i < kLanes; ++i) all[i] = static_cast<ShuffleOperands*>(operands[i])->bits;
    for (int i = 0; i < kLanes; ++i) {
      auto& lane = *static_cast<ShuffleOperands*>(operands[i]);
      lane.bits = all[lane.from];
    }
  }
  return mine.bits;
}

bool IsAligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

void CheckShared(const Thread& thread, const char* what, const void* address, Where where) {
  const auto offset =
      reinterpret_cast<intptr_t>(address) - reinterpret_cast<intptr_t>(thread.shared);
  const int64_t bytes = thread.team->block().shared_bytes;
  if (offset < 0 || offset + 16 > bytes) {
    StopKernel(thread,
               absl::StrCat(what, " of bytes ", offset, " to ", offset + 16, " of ", bytes,
                            " of shared memory"),
               where);
  }
  if (offset % 16 != 0) {
    StopKernel(thread, absl::StrCat(what, " of misaligned shared memory, byte ", offset), where);
  }
}

template <typename T>
T AddTo(T* p, T value) {
  const Thread& thread = Current();
  if (thread.fenced) Release(p);
  const T before = std::atomic_ref<T>(*p).fetch_add(value, std::memory_order_relaxed);
  Acquire(p);
  return before;
}

}  // namespace

void AwaitEarlierKernels(Where where) { Current().team->AwaitEarlierKernels(Current(), where); }

void SyncThreads(Where where) {
  Thread& thread = Current();
  thread.team->SyncThreads(thread, where);
}

void SyncWarp(Where where) {
  Thread& thread = Current();
  thread.team->SyncWarp(thread, where);
}

uint64_t ShuffleXor(uint64_t bits, int mask, Where where) {
  if (mask < 0 || mask >= kLanes) {
    StopKernel(Current(), absl::StrCat("ShuffleXor with mask ", mask), where);
  }
  return Shuffle(Operation::kShuffleXor, bits, Current().lane ^ mask, where);
}

uint64_t ShuffleFrom(uint64_t bits, int lane, Where where) {
  if (lane < 0 || lane >= kLanes) {
    StopKernel(Current(), absl::StrCat("ShuffleFrom lane ", lane), where);
  }
  return Shuffle(Operation::kShuffleFrom, bits, lane, where);
}

void MmaBf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Where where) {
  Thread& thread = Current();
  MmaOperands mine = {c, a, b};
  if (thread.team->Gather(thread, Operation::kMmaBf16, where, &mine)) {
    Multiply(thread.warp->operands);
  }
}

void CheckMatrixRow(const void* row, Where where) {
  CheckShared(Current(), "LoadMatrices", row, where);
}

void SpreadMatrices(uint32_t (&r)[4], const MatrixRow& row, bool transposed, Where where) {
  Thread& thread = Current();
  MatrixOperands mine = {r, &row};
  const auto operation = transposed ? Operation::kLoadMatricesTransposed : Operation::kLoadMatrices;
  if (thread.team->Gather(thread, operation, where, &mine)) {
    Spread(thread.warp->operands, transposed);
  }
}

void BeginCopy(const Copy& copy) {
  Thread& thread = Current();
  CheckShared(thread, "CopyAsync16", copy.shared, copy.where);
  if (!IsAligned(copy.global)) {
    StopKernel(thread, "CopyAsync16 of misaligned global memory", copy.where);
  }
  thread.copies.Add(copy);
}

void CommitCopies() { Current().copies.Commit(); }

const Copy* NextDueCopy(int pending) {
  return Current().copies.NextDue(static_cast<size_t>(pending));
}

uint32_t AtomicAdd(uint32_t* p, uint32_t value) { return AddTo(p, value); }
uint64_t AtomicAdd(uint64_t* p, uint64_t value) { return AddTo(p, value); }

void GlobalFence() { Current().fenced = true; }

}  // namespace luna::backend::cuda::emulation
