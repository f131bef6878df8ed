#include "server/state/sha256.h"

#include <openssl/evp.h>

#include <cstdint>
#include <memory>

#include "core/base/check.h"

namespace luna::state {

std::string Sha256(std::initializer_list<std::string_view> parts) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  bool ok = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::string_view part : parts) {
    ok = ok && EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1;
  }
  std::string digest(kSha256Bytes, '\0');
  ok = ok &&
       EVP_DigestFinal_ex(context.get(), reinterpret_cast<uint8_t*>(digest.data()), nullptr) == 1;
  LUNA_CHECK(ok) << "libcrypto has no SHA-256";
  return digest;
}

}  // namespace luna::state
