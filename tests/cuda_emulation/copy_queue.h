// The asynchronous copies of one thread that are under way.
#ifndef LUNA_TESTS_CUDA_EMULATION_COPY_QUEUE_H_
#define LUNA_TESTS_CUDA_EMULATION_COPY_QUEUE_H_

#include <cstddef>
#include <vector>

#include "tests/cuda_emulation/kernel_calls.h"

namespace luna::backend::cuda::emulation {

class CopyQueue {
 public:
  void Add(const Copy& copy) { copies_.push_back(copy); }
  void Commit() { group_ends_.push_back(copies_.size()); }
  // The oldest copy that is left of all groups but the last `pending`; null if there is none. Valid
  // until the next call of anything here.
  const Copy* NextDue(size_t pending);
  // The oldest copy that is left, committed or not.
  const Copy* Oldest() const { return next_ < copies_.size() ? &copies_[next_] : nullptr; }
  // For a new block.
  void Clear();

 private:
  std::vector<Copy> copies_;  // those before `next_` are done
  size_t next_ = 0;
  std::vector<size_t> group_ends_;  // in `copies_`; those before `next_group_` are done
  size_t next_group_ = 0;
};

}  // namespace luna::backend::cuda::emulation

#endif  // LUNA_TESTS_CUDA_EMULATION_COPY_QUEUE_H_
