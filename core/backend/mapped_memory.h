// Zeroed memory straight from the operating system, committed page by page when it is first
// written.
#ifndef LUNA_CORE_BACKEND_MAPPED_MEMORY_H_
#define LUNA_CORE_BACKEND_MAPPED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace luna::backend {

// Movable owner. Page-aligned; huge pages where the system grants them.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedMemory();

  // RESOURCE_EXHAUSTED, naming `purpose`, the bytes asked for and the bytes of the machine's
  // memory, if they exceed it or the system refuses.
  static absl::StatusOr<MappedMemory> Allocate(std::string_view purpose, int64_t bytes);

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_MAPPED_MEMORY_H_
