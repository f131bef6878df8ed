// Numbers for kernels to work on.
#ifndef LUNA_TESTS_BACKEND_RANDOM_VALUES_H_
#define LUNA_TESTS_BACKEND_RANDOM_VALUES_H_

#include <cstdint>
#include <random>
#include <vector>

namespace luna::backend {

// Normal, the same for the same seed.
inline std::vector<float> Random(int64_t size, uint32_t seed) {
  std::vector<float> values(size);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace luna::backend

#endif  // LUNA_TESTS_BACKEND_RANDOM_VALUES_H_
