// A counter-based random number generator: the same (seed, counter) gives the same number on every
// machine and in every order of asking, so a session's words cannot depend on its companions.
// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC11, 2011.
#ifndef LUNA_CORE_SAMPLE_RANDOM_H_
#define LUNA_CORE_SAMPLE_RANDOM_H_

#include <array>
#include <cstdint>

namespace luna::sample {

// Words are little-endian: word 0 of a key or counter is its lowest 32 bits.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter);

// Uniform in [0, 1), 24 bits: key `seed`, the low words of the counter are `counter`.
float Uniform(uint64_t seed, uint64_t counter);

// The seed of continuation `index` of a request with `seed`; index 0 keeps it. Its
// counters are none that Uniform uses.
uint64_t DeriveSeed(uint64_t seed, uint32_t index);

}  // namespace luna::sample

#endif  // LUNA_CORE_SAMPLE_RANDOM_H_
