// How many cores this process may keep busy.
#ifndef LUNA_CORE_BACKEND_CPU_CPU_COUNT_H_
#define LUNA_CORE_BACKEND_CPU_CPU_COUNT_H_

#include <string_view>

namespace luna::backend::cpu {

// The cores of the affinity mask, no more than the control group's quota rounded up; at least 1.
int UsableCpus();

// Cores granted by the text of a cgroup v2 "cpu.max" ("200000 100000": 2), rounded up; 0: no limit,
// or not understood.
int QuotaCpus(std::string_view cpu_max);

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_CPU_COUNT_H_
