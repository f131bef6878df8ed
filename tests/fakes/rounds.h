// How long tests of random operations go on.
#ifndef LUNA_TESTS_FAKES_ROUNDS_H_
#define LUNA_TESTS_FAKES_ROUNDS_H_

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace luna {

// Seeds to try: `usual` of them, or LUNA_ROUNDS times as many where the environment says so. The
// first ones are the same.
inline uint32_t NumSeeds(uint32_t usual) {
  const char* text = std::getenv("LUNA_ROUNDS");
  uint32_t times = 1;
  return text != nullptr && absl::SimpleAtoi(text, &times) ? usual * times : usual;
}

}  // namespace luna

#endif  // LUNA_TESTS_FAKES_ROUNDS_H_
