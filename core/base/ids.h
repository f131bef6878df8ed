// Strong integer ids: a BlockId cannot be passed where a SequenceId is meant.
#ifndef LUNA_CORE_BASE_IDS_H_
#define LUNA_CORE_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>
#include <utility>

namespace luna {

// A position in a model's vocabulary. Plain, because arrays of it go to the kernels.
using TokenId = int32_t;

template <typename Tag, typename Rep>
class StrongId {
 public:
  using rep = Rep;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  friend std::ostream& operator<<(std::ostream& out, StrongId id) { return out << id.value_; }
  template <typename H>
  friend H AbslHashValue(H hash, StrongId id) {
    return H::combine(std::move(hash), id.value_);
  }

 private:
  Rep value_{};
};

// One KV block of the server's pool: 0 <= value < number of blocks.
using BlockId = StrongId<struct BlockIdTag, int32_t>;
// A session, in the order of creation; what callers see is its secret key (engine/session.h).
using SessionId = StrongId<struct SessionIdTag, uint64_t>;
// One generation, in the order of submission.
using SequenceId = StrongId<struct SequenceIdTag, uint64_t>;

}  // namespace luna

#endif  // LUNA_CORE_BASE_IDS_H_
