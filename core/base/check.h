// LUNA_CHECK(condition) << "context": our own logic is wrong if it fails, and the process stops
// with the place, the condition and the context. Never for what a client, a file or a disk can
// cause: those get a Status.
#ifndef LUNA_CORE_BASE_CHECK_H_
#define LUNA_CORE_BASE_CHECK_H_

#include <sstream>

namespace luna::internal {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// Gives both arms of the conditional in LUNA_CHECK the type void, below << in precedence.
struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace luna::internal

#define LUNA_CHECK(condition)                 \
  (condition) ? (void)0                       \
              : ::luna::internal::Voidify() & \
                    ::luna::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()
#define LUNA_CHECK_EQ(a, b) LUNA_CHECK((a) == (b)) << "(" << (a) << " vs " << (b) << ") "
#define LUNA_CHECK_LE(a, b) LUNA_CHECK((a) <= (b)) << "(" << (a) << " vs " << (b) << ") "
#define LUNA_CHECK_LT(a, b) LUNA_CHECK((a) < (b)) << "(" << (a) << " vs " << (b) << ") "
#define LUNA_CHECK_GE(a, b) LUNA_CHECK((a) >= (b)) << "(" << (a) << " vs " << (b) << ") "

#endif  // LUNA_CORE_BASE_CHECK_H_
