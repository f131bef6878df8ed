// Counts every call of operator new in this test binary.
#ifndef LUNA_TESTS_BACKEND_ALLOCATION_COUNTER_H_
#define LUNA_TESTS_BACKEND_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace luna::backend {

// By all threads since the start. Thread-safe.
int64_t AllocationCount();

}  // namespace luna::backend

#endif  // LUNA_TESTS_BACKEND_ALLOCATION_COUNTER_H_
