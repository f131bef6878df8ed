#include "core/backend/cpu/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>

namespace luna::backend::cpu {

int QuotaCpus(std::string_view cpu_max) {
  int64_t quota = 0, period = 0;
  const char* end = cpu_max.data() + cpu_max.size();
  const auto first = std::from_chars(cpu_max.data(), end, quota);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ' ') return 0;
  const auto second = std::from_chars(first.ptr + 1, end, period);
  if (second.ec != std::errc() || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::clamp<int64_t>(quota / period + (quota % period != 0), 1, 4096));
}

int UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string line;
  const int quota = std::getline(file, line) ? QuotaCpus(line) : 0;
  return std::max(1, quota > 0 ? std::min(allowed, quota) : allowed);
}

}  // namespace luna::backend::cpu
