// What the emulation tells the sanitizers. Its own sources are not instrumented, or not all, so the
// build says by LUNA_EMULATION_ASAN and LUNA_EMULATION_TSAN that the program is.
#ifndef LUNA_TESTS_CUDA_EMULATION_SANITIZERS_H_
#define LUNA_TESTS_CUDA_EMULATION_SANITIZERS_H_

#if defined(LUNA_EMULATION_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(LUNA_EMULATION_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace luna::backend::cuda::emulation {

#if defined(LUNA_EMULATION_ASAN)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(LUNA_EMULATION_TSAN)
inline constexpr bool kThreadSanitizer = true;
// What was done before a Release happens before what is done after an Acquire of the same object.
inline void Release(void* object) { __tsan_release(object); }
inline void Acquire(void* object) { __tsan_acquire(object); }
#else
inline constexpr bool kThreadSanitizer = false;
inline void Release(void*) {}
inline void Acquire(void*) {}
#endif

}  // namespace luna::backend::cuda::emulation

#endif  // LUNA_TESTS_CUDA_EMULATION_SANITIZERS_H_
