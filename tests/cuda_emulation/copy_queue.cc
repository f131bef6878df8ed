#include "tests/cuda_emulation/copy_queue.h"

namespace luna::backend::cuda::emulation {

const Copy* CopyQueue::NextDue(size_t pending) {
  while (group_ends_.size() - next_group_ > pending) {
    if (next_ < group_ends_[next_group_]) return &copies_[next_++];
    ++next_group_;
  }
  return nullptr;
}

void CopyQueue::Clear() {
  copies_.clear();
  group_ends_.clear();
  next_ = next_group_ = 0;
}

}  // namespace luna::backend::cuda::emulation
