#include "core/sample/random.h"

namespace luna::sample {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

// Word 3 of the counters from which seeds are derived; Uniform leaves it 0.
constexpr uint32_t kSeedDomain = 1;

uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {High(product1) ^ counter[1] ^ key[0], Low(product1),
               High(product0) ^ counter[3] ^ key[1], Low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

float Uniform(uint64_t seed, uint64_t counter) {
  const auto words = Philox4x32({Low(seed), High(seed)}, {Low(counter), High(counter), 0, 0});
  return static_cast<float>(words[0] >> 8) * 0x1p-24f;
}

uint64_t DeriveSeed(uint64_t seed, uint32_t index) {
  if (index == 0) return seed;
  const auto words = Philox4x32({Low(seed), High(seed)}, {index, 0, 0, kSeedDomain});
  return uint64_t{words[1]} << 32 | words[0];
}

}  // namespace luna::sample
