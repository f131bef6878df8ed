#include "tests/cuda_emulation/fiber.h"

#include <atomic>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <memory>
#include <utility>

#include "core/base/check.h"
#include "tests/cuda_emulation/sanitizers.h"

namespace luna::backend::cuda::emulation {
namespace {

// Address space; a page is memory once it is touched. Sanitizers widen frames, and their reports
// are written on this stack.
constexpr size_t kStackBytes = kAddressSanitizer || kThreadSanitizer ? 512 << 10 : 128 << 10;

}  // namespace

Fiber::~Fiber() {
  LUNA_CHECK(!begun_ || ended_) << "a fiber is destroyed before its end";
#if defined(LUNA_EMULATION_TSAN)
  if (created_) __tsan_destroy_fiber(tsan_identity_);
#endif
}

void Fiber::Create(Body body, void* argument) {
  LUNA_CHECK(!created_);
  created_ = true;
  body_ = body;
  argument_ = argument;
  boost::context::protected_fixedsize_stack allocator(kStackBytes);
  boost::context::stack_context stack = allocator.allocate();
  stack_bottom_ = static_cast<std::byte*>(stack.sp) - stack.size;
  stack_bytes_ = stack.size;
#if defined(LUNA_EMULATION_TSAN)
  tsan_identity_ = __tsan_create_fiber(0);
#endif
  // Stacks that all began at the same place of a page would share few lines of the cache.
  static std::atomic<unsigned> count = 0;
  const size_t skip = count++ * 576 % 4096 / 64 * 64;
  void* top = static_cast<std::byte*>(stack.sp) - skip;
  handle_ = boost::context::fiber(std::allocator_arg,
                                  boost::context::preallocated(top, stack.size - skip, stack),
                                  allocator, [this](boost::context::fiber&&) {
                                    begun_ = true;
                                    Arrive();
                                    Fiber* next = body_(argument_);
                                    ended_ = true;
                                    Leave(/*for_good=*/true, *next);
                                    return std::move(next->handle_);
                                  });
}

void Fiber::Adopt() {
  LUNA_CHECK(!created_);
#if defined(LUNA_EMULATION_TSAN)
  tsan_identity_ = __tsan_get_current_fiber();
#endif
}

// resume_with and not resume: what it calls over there returns to where the jump went, so the
// processor's predictions of returns, which tell apart no stacks, stay right; else a switch takes
// three times as long.
void Fiber::Switch(Fiber& from, Fiber& to) {
  from.Leave(/*for_good=*/false, to);
  std::move(to.handle_).resume_with([&from](boost::context::fiber&& left) {
    from.handle_ = std::move(left);
    return boost::context::fiber();
  });
  from.Arrive();
}

void Fiber::Leave([[maybe_unused]] bool for_good, Fiber& to) {
  to.came_from_ = this;
#if defined(LUNA_EMULATION_ASAN)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, to.stack_bottom_,
                                 to.stack_bytes_);
#endif
#if defined(LUNA_EMULATION_TSAN)
  __tsan_switch_to_fiber(to.tsan_identity_, __tsan_switch_to_fiber_no_sync);
#endif
}

void Fiber::Arrive() {
#if defined(LUNA_EMULATION_ASAN)
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &bytes);
  if (!came_from_->created_) {
    came_from_->stack_bottom_ = bottom;
    came_from_->stack_bytes_ = bytes;
  }
#endif
}

}  // namespace luna::backend::cuda::emulation
