#include "server/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/absl_view.h"

namespace luna::server {
namespace {

// No value: no file, or "max".
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int64_t value = 0;
  if (!std::getline(file, text) || !absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

// The number after `key` in a file of "key value" lines.
std::optional<int64_t> ReadKey(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  int64_t value = 0;
  while (file >> word) {
    if (word == key && file >> value) return value;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

struct CgroupFiles {
  const char* limit;
  const char* used;
  const char* reclaimable_key;  // in memory.stat: page cache that goes at need
};

constexpr CgroupFiles kV1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                             "total_inactive_file"};
constexpr CgroupFiles kV2 = {"/memory.max", "/memory.current", "inactive_file"};

// What the group at `base` + `path` and those above it leave, at most `least`.
int64_t LeftInGroups(const std::string& base, std::string path, const CgroupFiles& files,
                     int64_t least) {
  while (true) {
    const std::string directory = base + path;
    const std::optional<int64_t> limit = ReadNumber(directory + files.limit);
    const std::optional<int64_t> used = ReadNumber(directory + files.used);
    if (limit.has_value() && used.has_value()) {
      const int64_t reclaimable =
          ReadKey(directory + "/memory.stat", files.reclaimable_key).value_or(0);
      least = std::min(least, std::max<int64_t>(0, *limit - *used + std::min(reclaimable, *used)));
    }
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return least;
    path.resize(slash);
  }
}

bool HasController(std::string_view list, std::string_view name) {
  for (const absl::string_view one : absl::StrSplit(AbslView(list), ',')) {
    if (StdView(one) == name) return true;
  }
  return false;
}

}  // namespace

int64_t AvailableMemoryBytes(const std::string& root) {
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  int64_t left = kUnlimited;
  if (const auto kib = ReadKey(root + "/proc/meminfo", "MemAvailable:")) left = *kib * 1024;

  // Lines of "id:controllers:path"; v2's is "0::path". In a container the path may be the host's
  // and not exist here: the mount's own root, which the walk upwards ends with, is then the
  // container's.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::string path = parts[2] == "/" ? "" : parts[2];
    if (parts[1].empty()) {
      left = LeftInGroups(root + "/sys/fs/cgroup", path, kV2, left);
    } else if (HasController(parts[1], "memory")) {
      left = LeftInGroups(root + "/sys/fs/cgroup/memory", path, kV1, left);
    }
  }
  return left == kUnlimited ? 0 : left;
}

}  // namespace luna::server
