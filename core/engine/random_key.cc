#include "core/engine/random_key.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "core/base/check.h"

namespace luna::engine {

std::string RandomKey() {
  std::array<uint8_t, 16> bytes;
  ssize_t got = 0;
  do {
    got = getrandom(bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  LUNA_CHECK_EQ(got, static_cast<ssize_t>(bytes.size()));  // never short up to 256 bytes

  constexpr char kDigits[] = "0123456789abcdef";
  std::string key;
  for (const uint8_t byte : bytes) {
    key += kDigits[byte >> 4];
    key += kDigits[byte & 15];
  }
  return key;
}

}  // namespace luna::engine
