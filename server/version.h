// The version of the product, from CMake's project().
#ifndef LUNA_SERVER_VERSION_H_
#define LUNA_SERVER_VERSION_H_

namespace luna::server {

inline constexpr char kVersion[] = LUNA_VERSION;

}  // namespace luna::server

#endif  // LUNA_SERVER_VERSION_H_
