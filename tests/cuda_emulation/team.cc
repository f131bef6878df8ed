#include "tests/cuda_emulation/team.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "tests/cuda_emulation/sanitizers.h"

namespace luna::backend::cuda::emulation {

constinit thread_local Place* place = nullptr;

namespace {

const char* NameOf(Operation operation) {
  switch (operation) {
    case Operation::kSyncThreads:
      return "SyncThreads";
    case Operation::kSyncWarp:
      return "SyncWarp";
    case Operation::kShuffleXor:
      return "ShuffleXor";
    case Operation::kShuffleFrom:
      return "ShuffleFrom";
    case Operation::kMmaBf16:
      return "MmaBf16";
    case Operation::kLoadMatrices:
      return "LoadMatrices";
    case Operation::kLoadMatricesTransposed:
      return "LoadMatricesTransposed";
  }
  return "";
}

// The file is only looked at where the objects differ: they are one for one place as a rule.
bool Same(const Where& a, const Where& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string At(Operation operation, const Where& where) {
  return absl::StrCat("is at ", NameOf(operation), " (", ToString(where), ")");
}

}  // namespace

std::string ToString(Where where) { return absl::StrCat(where.file_name(), ":", where.line()); }

void StopKernel(const Thread& thread, const std::string& message, Where where) {
  std::fprintf(stderr, "%s, thread %d: %s at %s\n", thread.team->Name().c_str(), thread.thread,
               message.c_str(), ToString(where).c_str());
  std::abort();
}

Team::Team() = default;

Team::~Team() {
  if (threads_.empty()) return;
  host_.Adopt();
  stopping_ = true;
  for (auto& thread : threads_) Fiber::Switch(host_, thread->fiber);
}

std::string Team::Name() const {
  return absl::StrCat("kernel ", block_.kernel, ", block (", block_.x, ", ", block_.y, ", ",
                      block_.z, ")");
}

void Team::Prepare(int threads) {
  while (static_cast<int>(threads_.size()) < threads) {
    threads_.push_back(std::make_unique<Thread>());
    Thread& thread = *threads_.back();
    thread.team = this;
    thread.thread = static_cast<int>(threads_.size()) - 1;
    thread.lane = thread.thread % kLanes;
    thread.fiber.Create(&Team::ThreadBody, &thread);
  }
  warps_.assign(threads / kLanes, Warp());
  open_warps_ = kAllOfWarp >> (kLanes - threads / kLanes);
  at_barrier_ = returned_ = 0;
  for (int i = 0; i < threads; ++i) {
    Thread& thread = *threads_[i];
    thread.warp = &warps_[i / kLanes];
    thread.block_threads = threads;
    thread.block_x = block_.x;
    thread.block_y = block_.y;
    thread.block_z = block_.z;
    thread.grid_x = block_.grid_x;
    thread.shared = block_.shared;
    thread.copies.Clear();
    thread.fenced = thread.awaited = false;
    thread.warp_syncs = thread.block_syncs = 0;
  }
}

void Team::Run(const Block& block, Beginning& beginning) {
  LUNA_CHECK(place == nullptr) << "a kernel that starts another";
  LUNA_CHECK(block.threads > 0 && block.threads <= kMostThreads && block.threads % kLanes == 0)
      << block.kernel << " with blocks of " << block.threads;
  block_ = block;
  beginning_ = &beginning;
  ++blocks_;
  backwards_ = block.order % 2 != 0;
  Prepare(block.threads);
  host_.Adopt();
  SwitchTo(host_, *threads_[block.order / 2 % block.threads]);
}

void Team::Join() {
  for (char& end : ends_) Acquire(&end);
}

Fiber* Team::ThreadBody(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  Team& team = *thread.team;
  while (!team.stopping_) {
    Acquire(&team.beginning_->launch);
    if (!team.block_.overlaps) Acquire(&team.beginning_->earlier);
    // Of the block before, not of those threads of this one that ended already.
    Acquire(&team.ends_[(team.blocks_ + 1) % 2]);
    team.block_.entry->call(team.block_.args);
    Release(&team.ends_[team.blocks_ % 2]);
    team.Return(thread);
  }
  return &team.host_;
}

void Team::Return(Thread& thread) {
  if (const Copy* copy = thread.copies.Oldest()) {
    StopKernel(thread, "returns before WaitCopies for a copy that began", copy->where);
  }
  if (block_.overlaps && !thread.awaited) {
    std::fprintf(stderr, "%s, thread %d: returns without AwaitEarlierKernels\n", Name().c_str(),
                 thread.thread);
    std::abort();
  }
  Warp& warp = *thread.warp;
  if (warp.in_operation != 0 || at_barrier_ != 0) Diverged(thread, "has returned");
  warp.returned |= 1u << thread.lane;
  if (++returned_ == block_.threads) {
    place = nullptr;
    Fiber::Switch(thread.fiber, host_);
  } else {
    SwitchTo(thread.fiber, NextOfBlock(thread));
  }
}

void Team::SwitchTo(Fiber& from, Thread& to) {
  place = &to;
  Fiber::Switch(from, to.fiber);
}

bool Team::Gather(Thread& thread, Operation operation, Where where, void* operands) {
  Warp& warp = *thread.warp;
  if (warp.in_operation == 0) {
    if ((warp.at_barrier | warp.returned) != 0) Diverged(thread, At(operation, where));
    warp.operation = operation;
    warp.where = where;
  } else if (warp.operation != operation || !Same(warp.where, where)) {
    Diverged(thread, At(operation, where));
  }
  warp.operands[thread.lane] = operands;
  warp.in_operation |= 1u << thread.lane;
  if (warp.in_operation == kAllOfWarp) {
    warp.in_operation = 0;
    return true;
  }
  SwitchTo(thread.fiber, NextOfWarp(thread));
  return false;
}

void Team::SyncWarp(Thread& thread, Where where) {
  char& sync = thread.warp->sync[thread.warp_syncs++ % 2];
  Release(&sync);
  Gather(thread, Operation::kSyncWarp, where, nullptr);
  Acquire(&sync);
}

void Team::AwaitEarlierKernels(Thread& thread, Where where) {
  if (thread.awaited) StopKernel(thread, "awaits earlier kernels again", where);
  thread.awaited = true;
  Acquire(&beginning_->earlier);
}

void Team::SyncThreads(Thread& thread, Where where) {
  char& sync = sync_[thread.block_syncs++ % 2];
  Release(&sync);
  Warp& warp = *thread.warp;
  if (at_barrier_ == 0) {
    barrier_where_ = where;
  } else if (!Same(barrier_where_, where)) {
    Diverged(thread, At(Operation::kSyncThreads, where));
  }
  if (warp.in_operation != 0 || returned_ != 0) {
    Diverged(thread, At(Operation::kSyncThreads, where));
  }
  warp.at_barrier |= 1u << thread.lane;
  if (++at_barrier_ == block_.threads) {
    for (Warp& each : warps_) each.at_barrier = 0;
    at_barrier_ = 0;
    open_warps_ = kAllOfWarp >> (kLanes - warps_.size());
  } else {
    SwitchTo(thread.fiber, NextOfBlock(thread));
  }
  Acquire(&sync);
}

Thread& Team::NextOfWarp(Thread& thread) {
  const Warp& warp = *thread.warp;
  const uint32_t ready = ~(warp.in_operation | warp.at_barrier | warp.returned);
  const int lane = backwards_ ? thread.lane - 1 - std::countl_zero(std::rotr(ready, thread.lane))
                              : thread.lane + std::countr_zero(std::rotr(ready, thread.lane));
  return *threads_[thread.thread - thread.lane + (lane & (kLanes - 1))];
}

// A thread comes here that waits in SyncThreads or has returned; then no lane of its warp waits in
// a warp operation. So a warp is left only at a barrier or at its end, and all lanes of an open one
// can go on.
Thread& Team::NextOfBlock(Thread& thread) {
  const Warp& warp = *thread.warp;
  if ((warp.at_barrier | warp.returned) != kAllOfWarp) return NextOfWarp(thread);
  const int here = thread.thread / kLanes;
  open_warps_ &= ~(1u << here);
  const int next = backwards_ ? here - 1 - std::countl_zero(std::rotr(open_warps_, here))
                              : here + std::countr_zero(std::rotr(open_warps_, here));
  return *threads_[(next & (kLanes - 1)) * kLanes + thread.lane];
}

void Team::Diverged(const Thread& thread, const std::string& at) {
  std::fprintf(stderr, "%s: the threads part: thread %d %s, but %s\n", Name().c_str(),
               thread.thread, at.c_str(), AnyOther(thread).c_str());
  std::abort();
}

// One that is elsewhere, those nearest in what they do first.
std::string Team::AnyOther(const Thread& thread) const {
  const Warp& warp = *thread.warp;
  const int first = thread.thread - thread.lane;
  const auto named = [](int index, const std::string& does) {
    return absl::StrCat("thread ", index, " ", does);
  };
  if (warp.in_operation != 0) {
    return named(first + std::countr_zero(warp.in_operation), At(warp.operation, warp.where));
  }
  for (size_t i = 0; i < warps_.size(); ++i) {
    if (warps_[i].at_barrier == 0) continue;
    return named(static_cast<int>(i) * kLanes + std::countr_zero(warps_[i].at_barrier),
                 At(Operation::kSyncThreads, barrier_where_));
  }
  for (size_t i = 0; i < warps_.size(); ++i) {
    if (warps_[i].returned == 0) continue;
    return named(static_cast<int>(i) * kLanes + std::countr_zero(warps_[i].returned),
                 "has returned");
  }
  return "no other waits";
}

}  // namespace luna::backend::cuda::emulation
