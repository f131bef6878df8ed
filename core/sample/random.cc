#include "core/sample/random.h"

#include "core/sample/philox.h"

namespace luna::sample {
namespace {

// Word 3 of the counters from which seeds are derived; Uniform leaves it 0.
constexpr uint32_t kSeedDomain = 1;

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter) {
  const PhiloxWords words =
      Philox(uint64_t{key[1]} << 32 | key[0], {{counter[0], counter[1], counter[2], counter[3]}});
  return {words.word[0], words.word[1], words.word[2], words.word[3]};
}

float Uniform(uint64_t seed, uint64_t counter) { return PhiloxUniform(seed, counter); }

uint64_t DeriveSeed(uint64_t seed, uint32_t index) {
  if (index == 0) return seed;
  const PhiloxWords words = Philox(seed, {{index, 0, 0, kSeedDomain}});
  return uint64_t{words.word[1]} << 32 | words.word[0];
}

}  // namespace luna::sample
