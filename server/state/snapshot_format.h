// A saved session as bytes: what lies in a file of the state directory, and what a client gets that
// saves a session to keep it itself.
//
//   offset  bytes
//        0      8  magic: 93 4C 55 4E 41 53 45 53, "LUNASES" behind a byte that no text begins with
//        8      4  version, little-endian: 1
//       12      8  length of the payload in bytes, little-endian
//       20     32  SHA-256 of the bytes [0, 20) and of the payload
//       52         the payload, to the end: luna.state.v1.Snapshot of snapshot.proto
//
// The first 52 bytes mean the same in every version, so that a reader tells damage from a file of a
// later server. The checksum is there against damage: it has no key, and whoever can write a file
// can make it fit. What comes out of a payload is therefore checked as if a stranger had written
// it. SHA-256 rather than a CRC because it costs nothing here (libcrypto is there for gRPC, and a
// session has kilobytes) and no pattern of damage passes it.
#ifndef LUNA_SERVER_STATE_SNAPSHOT_FORMAT_H_
#define LUNA_SERVER_STATE_SNAPSHOT_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/engine/saved_session.h"

namespace luna::state {

inline constexpr uint32_t kSnapshotVersion = 1;
inline constexpr size_t kSnapshotHeaderBytes = 52;
// Of a whole snapshot. Above what sessions come to, and a bound for whoever collects one
// from a stream.
inline constexpr size_t kMaxSnapshotBytes = size_t{256} << 20;

// Takes what it is given; what DecodeSnapshot accepts is what CheckSavedSession does.
std::string EncodeSnapshot(const engine::SavedSession& session);

// `source` names the file or stream in messages. Every fact of the result holds that
// CheckSavedSession names. Errors:
//   DATA_LOSS            not a snapshot, damaged, cut, or with bytes behind its end
//   FAILED_PRECONDITION  whole, and of a later version
//   INVALID_ARGUMENT     whole, and no session is like that; carries the field
// Whether this server's model can go on from it is the engine's to say.
absl::StatusOr<engine::SavedSession> DecodeSnapshot(std::string_view bytes,
                                                    std::string_view source);

// The two layers of DecodeSnapshot's outer one: a header and `payload` behind it, and the payload
// of what is whole and of this version (a view of `bytes`).
std::string SealPayload(std::string_view payload, uint32_t version = kSnapshotVersion);
absl::StatusOr<std::string_view> OpenPayload(std::string_view bytes, std::string_view source);

}  // namespace luna::state

#endif  // LUNA_SERVER_STATE_SNAPSHOT_FORMAT_H_
