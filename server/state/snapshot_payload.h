// A saved session as the message inside a snapshot, and back.
#ifndef LUNA_SERVER_STATE_SNAPSHOT_PAYLOAD_H_
#define LUNA_SERVER_STATE_SNAPSHOT_PAYLOAD_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/engine/saved_session.h"

namespace luna::state {

std::string EncodePayload(const engine::SavedSession& session);

// `payload` may come from anybody and takes at most kMaxSnapshotBytes. DATA_LOSS if it is not the
// message, INVALID_ARGUMENT with the field if no session is like that; both name `source`.
absl::StatusOr<engine::SavedSession> DecodePayload(std::string_view payload,
                                                   std::string_view source);

}  // namespace luna::state

#endif  // LUNA_SERVER_STATE_SNAPSHOT_PAYLOAD_H_
