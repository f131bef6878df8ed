#include "core/backend/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace luna::backend {
namespace {

int64_t MachineMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

}  // namespace

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

absl::StatusOr<MappedMemory> MappedMemory::Allocate(std::string_view purpose, int64_t bytes) {
  MappedMemory memory;
  if (bytes <= 0) return memory;
  const int64_t machine_bytes = MachineMemoryBytes();
  void* data = bytes > machine_bytes
                   ? MAP_FAILED
                   : mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(AbslView(purpose), " needs ", bytes,
                                                     " bytes; the machine has ", machine_bytes));
  }
  // Only a wish: without huge pages everything works, more slowly.
  madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  memory.data_ = data;
  memory.bytes_ = bytes;
  return memory;
}

}  // namespace luna::backend
