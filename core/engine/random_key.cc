#include "core/engine/random_key.h"

#include <sys/random.h>

#include <array>
#include <cerrno>

#include "absl/strings/escaping.h"
#include "core/base/check.h"

namespace luna::engine {

std::string RandomKey() {
  std::array<char, 16> bytes;
  ssize_t got = 0;
  do {
    got = getrandom(bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  LUNA_CHECK_EQ(got, static_cast<ssize_t>(bytes.size()));  // never short up to 256 bytes

  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

}  // namespace luna::engine
