#include "tests/cuda_emulation/device_memory.h"

#include <cstdlib>

#include "core/base/check.h"
#include "tests/cuda_emulation/undefined.h"

namespace luna::backend::cuda::emulation {

DeviceMemory::~DeviceMemory() {
  if (allocations_.empty()) return;
  const auto& [address, first] = *allocations_.begin();
  LUNA_CHECK(allocations_.empty())
      << allocations_.size() << " allocations of " << kind_ << ", " << held_bytes_
      << " bytes, were not freed; one is " << first.purpose << ", " << first.bytes << " bytes";
}

void* DeviceMemory::Allocate(std::string_view purpose, int64_t bytes) {
  LUNA_CHECK(bytes > 0) << bytes << " bytes of " << kind_ << " for " << purpose;
  void* memory = nullptr;
  LUNA_CHECK(posix_memalign(&memory, 256, static_cast<size_t>(bytes)) == 0)
      << "the host has no " << bytes << " bytes for " << purpose;
  MakeUndefined(memory, bytes);
  allocations_[static_cast<std::byte*>(memory)] = {bytes, std::string(purpose)};
  held_bytes_ += bytes;
  return memory;
}

int64_t DeviceMemory::Free(void* memory) {
  const auto found = allocations_.find(static_cast<std::byte*>(memory));
  LUNA_CHECK(found != allocations_.end())
      << memory << " is freed as " << kind_ << ", which it is not, or no more";
  const int64_t bytes = found->second.bytes;
  held_bytes_ -= bytes;
  allocations_.erase(found);
  std::free(memory);
  return bytes;
}

void DeviceMemory::CheckRange(std::string_view what, const void* memory, int64_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(memory);
  auto found = allocations_.upper_bound(begin);
  if (found != allocations_.begin()) --found;
  LUNA_CHECK(bytes >= 0 && found != allocations_.end() && begin >= found->first &&
             begin < found->first + found->second.bytes)
      << what << ": " << bytes << " bytes at " << memory << " are not in " << kind_;
  const int64_t offset = begin - found->first;
  LUNA_CHECK(offset + bytes <= found->second.bytes)
      << what << ": bytes " << offset << " to " << offset + bytes << " of " << kind_ << " for "
      << found->second.purpose << ", which has " << found->second.bytes;
}

}  // namespace luna::backend::cuda::emulation
