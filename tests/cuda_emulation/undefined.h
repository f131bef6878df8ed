// What memory holds that nobody has written.
#ifndef LUNA_TESTS_CUDA_EMULATION_UNDEFINED_H_
#define LUNA_TESTS_CUDA_EMULATION_UNDEFINED_H_

#include <cstdint>

namespace luna::backend::cuda::emulation {

// A NaN in bf16, f16, f32 and f64 alike, and as a whole number no likely index.
inline constexpr uint64_t kUndefined = 0x7ff77ff77ff77ff7;

// Fills `memory` with it; no access to ThreadSanitizer.
void MakeUndefined(void* memory, int64_t bytes);

}  // namespace luna::backend::cuda::emulation

#endif  // LUNA_TESTS_CUDA_EMULATION_UNDEFINED_H_
