// SHA-256, by libcrypto.
#ifndef LUNA_SERVER_STATE_SHA256_H_
#define LUNA_SERVER_STATE_SHA256_H_

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace luna::state {

inline constexpr size_t kSha256Bytes = 32;

// Of the parts one behind the other: kSha256Bytes bytes.
std::string Sha256(std::initializer_list<std::string_view> parts);

}  // namespace luna::state

#endif  // LUNA_SERVER_STATE_SHA256_H_
