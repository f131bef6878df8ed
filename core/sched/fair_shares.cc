#include "core/sched/fair_shares.h"

#include <algorithm>
#include <limits>

namespace luna::sched {
namespace {

constexpr uint64_t kNobody = std::numeric_limits<uint64_t>::max();

}  // namespace

void FairShares::Enter(Sequence& sequence) {
  uint64_t least = kNobody;
  for (const auto& [id, caller] : callers_) {
    if (!caller.active.empty()) least = std::min(least, caller.served);
  }
  Caller& caller = callers_[sequence.caller()];
  if (caller.active.empty() && least != kNobody) caller.served = std::max(caller.served, least);

  uint64_t least_session = kNobody;
  for (const auto& [id, other] : caller.active) {
    least_session = std::min(least_session, other->cache().served_tokens);
  }
  uint64_t& served = sequence.cache().served_tokens;
  if (least_session != kNobody) served = std::max(served, least_session);
  caller.active.emplace(sequence.id(), &sequence);
}

void FairShares::Leave(const Sequence& sequence) {
  callers_.at(sequence.caller()).active.erase(sequence.id());
  ForgetTheSilent();
}

void FairShares::Serve(Sequence& sequence, int tokens) {
  callers_.at(sequence.caller()).served += static_cast<uint64_t>(tokens);
  sequence.cache().served_tokens += static_cast<uint64_t>(tokens);
}

// Whose counter would be lifted anyway; everybody's, when nobody is left to be fair to.
void FairShares::ForgetTheSilent() {
  uint64_t least = kNobody;
  for (const auto& [id, caller] : callers_) {
    if (!caller.active.empty()) least = std::min(least, caller.served);
  }
  absl::erase_if(callers_, [least](const auto& entry) {
    return entry.second.active.empty() && (least == kNobody || entry.second.served <= least);
  });
}

bool FairShares::Before(const Sequence& a, const Sequence& b) const {
  if (a.caller() != b.caller()) {
    const uint64_t of_a = served(a.caller()), of_b = served(b.caller());
    if (of_a != of_b) return of_a < of_b;
  } else {
    if (a.priority() != b.priority()) return a.priority() > b.priority();
    const uint64_t of_a = a.cache().served_tokens, of_b = b.cache().served_tokens;
    if (of_a != of_b) return of_a < of_b;
  }
  return a.id() < b.id();
}

}  // namespace luna::sched
