// What kernels may use of the machine, and all that they may use: small wrappers, so that the same
// sources run on a GPU and, under the emulation in tests/cuda_emulation, on a CPU.
//
// Rules for kernels: one argument, a struct by value; raw pointers; blocks of one dimension whose
// size is a multiple of kWarpSize; shared memory is dynamic only; barriers and warp operations are
// reached by all threads of the block or warp; every thread calls AwaitEarlierKernels once, and
// touches before it only what no kernel writes; no __restrict__ and no __ldg, whose loads a
// compiler may move before it. PTX: NVIDIA, "Parallel Thread Execution ISA".
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_PLATFORM_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_PLATFORM_CUH_

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)

#include <cuda_runtime.h>

// The inline namespace of all kernels: a test that links those of a GPU and the emulation's has
// both, not one of them under both names.
#define LUNA_KERNELS compiled
// Of its translation unit alone: kernels stand in headers.
#define LUNA_KERNEL static __global__
#define LUNA_DEVICE __device__ __forceinline__
// At most `threads` a block, and so few registers that a multiprocessor has at least `blocks`.
#define LUNA_BLOCK_OF(threads, blocks) __launch_bounds__(threads, blocks)

namespace luna::backend::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

LUNA_DEVICE int ThreadIndex() { return static_cast<int>(threadIdx.x); }
LUNA_DEVICE int BlockThreads() { return static_cast<int>(blockDim.x); }
LUNA_DEVICE int BlockIndexX() { return static_cast<int>(blockIdx.x); }
LUNA_DEVICE int BlockIndexY() { return static_cast<int>(blockIdx.y); }
LUNA_DEVICE int BlockIndexZ() { return static_cast<int>(blockIdx.z); }
LUNA_DEVICE int GridX() { return static_cast<int>(gridDim.x); }

// The block's dynamic shared memory, aligned to 16 bytes, its contents undefined at first.
LUNA_DEVICE std::byte* SharedMemory() {
  extern __shared__ __align__(16) unsigned char luna_shared_memory[];
  return reinterpret_cast<std::byte*>(luna_shared_memory);
}

// Kernels overlap, where a device lets them (sm_90 and later): one may begin as soon as all blocks
// of the one before it have passed this, and here it waits until all that is before it is done and
// seen. So what a launch costs, and what a kernel reads of weights before this, goes on beside its
// predecessor's work. griddepcontrol.
LUNA_DEVICE void AwaitEarlierKernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "griddepcontrol.wait;\n\t"
      "griddepcontrol.launch_dependents;" ::
          : "memory");
#endif
}

LUNA_DEVICE void SyncThreads() { __syncthreads(); }
LUNA_DEVICE void SyncWarp() { __syncwarp(); }

// The value of lane `lane ^ mask`, and of lane `lane`. T has 4 or 8 bytes.
template <typename T>
LUNA_DEVICE T ShuffleXor(T value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
template <typename T>
LUNA_DEVICE T ShuffleFrom(T value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}

// c[16, 8] += a[16, 16] b[16, 8], bf16 in, f32 out: mma.m16n8k16. Lane l holds, with g = l / 4 and
// t = l % 4, of two neighbouring values the lower one in the low half of a register:
//   a  rows g, g + 8, g, g + 8; columns 2t and 2t + 1, the last two registers 8 further
//   b  rows 2t and 2t + 1, the second register 8 further; column g
//   c  [g][2t], [g][2t + 1], [g + 8][2t], [g + 8][2t + 1]
LUNA_DEVICE void MmaBf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four matrices of 8 x 8 values of 16 bits from shared memory: lanes 8i to 8i + 7 give the
// addresses of the rows of matrix i (16 bytes each, aligned). r[i] of lane l: row l / 4, columns 2
// (l % 4) and the next; transposed: rows 2 (l % 4) and the next, column l / 4. ldmatrix.
LUNA_DEVICE void LoadMatrices(uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
LUNA_DEVICE void LoadMatricesTransposed(uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// An 8 x 8 matrix of 16-bit values, transposed: lane l gives row l / 4, columns 2 (l % 4) and the
// next, and is given rows 2 (l % 4) and the next of column l / 4. movmatrix.
LUNA_DEVICE uint32_t TransposeMatrix(uint32_t pair) {
  uint32_t transposed;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
  return transposed;
}

// Two values rounded to bf16, to nearest, ties to even; `low` in the low half.
LUNA_DEVICE uint32_t PackBf16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Copies 16 bytes from global to shared memory, both aligned, or writes 16 zeros where `there` is
// false (nothing is read then). Done for the thread that asked after WaitCopies, for the others
// after a barrier behind that. cp.async.
LUNA_DEVICE void CopyAsync16(void* shared, const void* global, bool there) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
               "r"(there ? 16 : 0)
               : "memory");
}
LUNA_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most the kPending last committed groups are under way.
template <int kPending>
LUNA_DEVICE void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Adds to a number that other threads add to; whole numbers only, whose sums have no order. Returns
// what it was.
LUNA_DEVICE uint32_t AtomicAdd(uint32_t* p, uint32_t value) { return atomicAdd(p, value); }
LUNA_DEVICE uint64_t AtomicAdd(uint64_t* p, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(p), value);
}
// What this thread wrote to global memory before is seen by whoever sees what it writes after.
LUNA_DEVICE void GlobalFence() { __threadfence(); }

// A value that another block wrote in this launch: not from a cache that does not see it.
LUNA_DEVICE float LoadFresh(const float* p) { return __ldcg(p); }

template <auto kKernel>
const void* KernelEntry() {
  return reinterpret_cast<const void*>(kKernel);
}

}  // namespace luna::backend::cuda

#elif !defined(LUNA_CUDA_PLATFORM)
#error "kernels are compiled by nvcc, or behind a header that defines the platform"
#endif

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_PLATFORM_CUH_
