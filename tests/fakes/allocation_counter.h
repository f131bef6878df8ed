// Counts every call of operator new in the test program that links it.
#ifndef LUNA_TESTS_FAKES_ALLOCATION_COUNTER_H_
#define LUNA_TESTS_FAKES_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace luna {

// By all threads since the start. Thread-safe.
int64_t AllocationCount();

}  // namespace luna

#endif  // LUNA_TESTS_FAKES_ALLOCATION_COUNTER_H_
