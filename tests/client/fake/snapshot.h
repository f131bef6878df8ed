// What a saved session of the fake server looks like: a check sum, then the session and the lengths
// of its turns. The check sum finds what is cut or changed.
#ifndef LUNA_TESTS_CLIENT_FAKE_SNAPSHOT_H_
#define LUNA_TESTS_CLIENT_FAKE_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "luna/v1/inference.pb.h"
#include "luna/v1/session.pb.h"
#include "tests/client/fake/state.h"

namespace luna::fake {

inline constexpr size_t kCheckSumBytes = 16;

inline std::string CheckSum(std::string_view body) {
  uint64_t sum = 14695981039346656037u;  // FNV-1a
  for (const char c : body) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return absl::StrCat(absl::Hex(sum, absl::kZeroPad16));
}

// The session and its turns travel in a message that has room for both.
inline std::string Snapshot(const v1::Session& session, const Held& held) {
  v1::TokenizeResponse body;
  body.add_pieces(session.SerializeAsString());
  for (const uint32_t tokens : held.turn_tokens) body.add_ids(tokens);
  const std::string bytes = body.SerializeAsString();
  return CheckSum(bytes) + bytes;
}

// None if it is damaged.
inline std::optional<std::pair<v1::Session, Held>> ReadSnapshot(const std::string& snapshot) {
  if (snapshot.size() < kCheckSumBytes) return std::nullopt;
  const std::string bytes = snapshot.substr(kCheckSumBytes);
  v1::TokenizeResponse body;
  std::pair<v1::Session, Held> read;
  if (CheckSum(bytes) != snapshot.substr(0, kCheckSumBytes) || !body.ParseFromString(bytes) ||
      body.pieces_size() != 1 || !read.first.ParseFromString(body.pieces(0))) {
    return std::nullopt;
  }
  read.second.turn_tokens.assign(body.ids().begin(), body.ids().end());
  return read;
}

}  // namespace luna::fake

#endif  // LUNA_TESTS_CLIENT_FAKE_SNAPSHOT_H_
