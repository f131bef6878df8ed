// How much memory this process may still take.
#ifndef LUNA_SERVER_MEMORY_LIMIT_H_
#define LUNA_SERVER_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace luna::server {

// Bytes that are left: the least of what the machine has available (/proc/meminfo) and what every
// cgroup above this process (v1 or v2) still allows. `root` is prepended to every path, for tests.
// 0 if nothing can be read.
int64_t AvailableMemoryBytes(const std::string& root = "");

}  // namespace luna::server

#endif  // LUNA_SERVER_MEMORY_LIMIT_H_
