// A stack of its own that runs until it hands over to another, all on one thread of the system; the
// sanitizers know of it.
#ifndef LUNA_TESTS_CUDA_EMULATION_FIBER_H_
#define LUNA_TESTS_CUDA_EMULATION_FIBER_H_

#include <boost/context/fiber.hpp>
#include <cstddef>

namespace luna::backend::cuda::emulation {

// Stays where it is made. To ThreadSanitizer each fiber is a thread, and a switch orders nothing
// between two of them.
class Fiber {
 public:
  // `body(argument)` runs when the fiber is switched to for the first time; what it returns goes on
  // when it ends.
  using Body = Fiber* (*)(void* argument);

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  // Its body must not have begun, or have ended.
  ~Fiber();

  // Makes a fiber with a stack. Without it the object stands for the stack that Adopt found.
  void Create(Body body, void* argument);
  bool created() const { return created_; }
  // Lets this object stand for the stack that the caller runs on.
  void Adopt();

  // Leaves `from`, which must be the one that runs, and goes on in `to`; returns when somebody
  // switches back.
  static void Switch(Fiber& from, Fiber& to);

 private:
  // Just before, and just after the machine's registers were exchanged.
  void Leave(bool for_good, Fiber& to);
  void Arrive();

  boost::context::fiber handle_;  // where it goes on; empty while it runs
  Body body_ = nullptr;
  void* argument_ = nullptr;
  bool created_ = false, begun_ = false, ended_ = false;
  Fiber* came_from_ = nullptr;
  const void* stack_bottom_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;     // AddressSanitizer's
  void* tsan_identity_ = nullptr;  // ThreadSanitizer's
};

}  // namespace luna::backend::cuda::emulation

#endif  // LUNA_TESTS_CUDA_EMULATION_FIBER_H_
