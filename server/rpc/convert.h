// The one place where the wire contract and the core's types meet. What comes in is validated as
// far as no state is needed; errors are INVALID_ARGUMENT unless said otherwise and carry their
// field.
#ifndef LUNA_SERVER_RPC_CONVERT_H_
#define LUNA_SERVER_RPC_CONVERT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/request.h"
#include "core/engine/session_info.h"
#include "core/engine/snapshot.h"
#include "core/engine/token_stream.h"
#include "luna/v1/inference.pb.h"
#include "luna/v1/monitor.pb.h"
#include "luna/v1/session.pb.h"
#include "server/rpc/serving.h"

namespace luna::rpc {

inline constexpr size_t kMaxLabelBytes = 128;
inline constexpr size_t kMaxRequestIdBytes = 128;
inline constexpr int kMaxPriority = 100;
inline constexpr uint32_t kMaxContinuations = 64;
// So that the answer, ids and pieces, stays below the 4 MiB that a client takes by default.
inline constexpr size_t kMaxTokenizeBytes = 128 * 1024;
inline constexpr int kMaxDetokenizeIds = 128 * 1024;
inline constexpr size_t kMaxDetokenizedBytes = 1024 * 1024;  // threefold where it is not UTF-8
// Of one Delta: with 20 log-probabilities a token it stays below those 4 MiB too.
inline constexpr size_t kMaxDeltaTokens = 8192;

// --- What comes in (convert_request.cc). ---

// Everything but caller, arrival and deadline. Takes time: the text becomes tokens here.
// OUT_OF_RANGE for an input that is longer than the context; FAILED_PRECONDITION for messages on a
// model without a chat template.
absl::StatusOr<engine::Request> ToRequest(const v1::GenerateRequest& request,
                                          const Serving& serving);
absl::StatusOr<engine::SessionSpec> ToSessionSpec(const v1::CreateSessionRequest& request,
                                                  const Serving& serving);
absl::StatusOr<engine::SessionUpdate> ToSessionUpdate(const v1::UpdateSessionRequest& request,
                                                      const Serving& serving);
// `field` is where `params` stands in its request: "sampling", "default_sampling".
absl::StatusOr<sample::SamplingOverrides> ToOverrides(const v1::SamplingParams& params,
                                                      std::string_view field, int vocab_size);
absl::StatusOr<std::vector<TokenId>> ToTokenIds(
    const google::protobuf::RepeatedField<uint32_t>& ids, std::string_view field, int vocab_size);
absl::Status CheckLength(std::string_view field, std::string_view value, size_t limit);

// --- What goes out (convert_reply.cc). ---

v1::Accepted ToProto(const engine::Accepted& accepted);
v1::Prompt ToProto(const engine::PromptDone& prompt);
v1::Delta ToProto(engine::Delta& delta);  // moves the text out
// Splits off the first kMaxDeltaTokens with all of the text: where the text of one token ends is no
// longer known, and a delta's text may be empty.
engine::Delta SplitFront(engine::Delta& delta);
v1::Finished ToProto(const engine::Finished& finished);
// Adds what `delta` says to the joined answer.
void Append(const engine::Delta& delta, v1::GenerateResponse& response);

v1::Session ToProto(const engine::SessionInfo& info);

// The name under which `caller` sees a session: its id if it is its own, else a handle, "s17".
std::string Handle(SessionId id);
// The session that an id or a handle names.
engine::SessionRef ToSessionRef(const std::string& name);
v1::PoolMemory ToPool(const engine::Snapshot& snapshot);
v1::Load ToLoad(const engine::Snapshot& snapshot);
v1::SessionMemory ToProto(const engine::SessionMemory& memory, std::string_view caller);
v1::MemorySnapshot ToProto(const engine::Snapshot& snapshot, std::string_view caller);

v1::GetModelResponse ToModelResponse(const Serving& serving);

}  // namespace luna::rpc

#endif  // LUNA_SERVER_RPC_CONVERT_H_
