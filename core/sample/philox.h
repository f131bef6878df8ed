// The arithmetic of the random number generator (see random.h), for the host and for kernels alike:
// one source, so that they cannot differ. No library is used, since nvcc compiles it for devices.
#ifndef LUNA_CORE_SAMPLE_PHILOX_H_
#define LUNA_CORE_SAMPLE_PHILOX_H_

#include <cstdint>

#if defined(__CUDACC__)
#define LUNA_HOST_DEVICE __host__ __device__
#else
#define LUNA_HOST_DEVICE
#endif

namespace luna::sample {

struct PhiloxWords {
  uint32_t word[4];
};

LUNA_HOST_DEVICE constexpr PhiloxWords Philox(uint64_t key, PhiloxWords counter) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;
  constexpr uint32_t kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter.word[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

// What random.h calls Uniform.
LUNA_HOST_DEVICE constexpr float PhiloxUniform(uint64_t seed, uint64_t counter) {
  const PhiloxWords words =
      Philox(seed, {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}});
  return static_cast<float>(words.word[0] >> 8) * 0x1p-24f;
}

}  // namespace luna::sample

#undef LUNA_HOST_DEVICE

#endif  // LUNA_CORE_SAMPLE_PHILOX_H_
