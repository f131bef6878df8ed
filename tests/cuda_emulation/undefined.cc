#include "tests/cuda_emulation/undefined.h"

#include <cstddef>
#include <cstring>

namespace luna::backend::cuda::emulation {

// Not memset, which ThreadSanitizer sees even from here.
void MakeUndefined(void* memory, int64_t bytes) {
  auto* p = static_cast<std::byte*>(memory);
  int64_t i = 0;
  for (; i + 8 <= bytes; i += 8) std::memcpy(p + i, &kUndefined, 8);
  for (; i < bytes; ++i) std::memcpy(p + i, reinterpret_cast<const char*>(&kUndefined) + i % 8, 1);
}

}  // namespace luna::backend::cuda::emulation
