// The JSON that scripts get: one shape per message, names as in the wire contract, enumerations in
// lower case without their prefix, bytes and counts as numbers, times in seconds since 1970.
#ifndef LUNA_CLIENT_JSON_H_
#define LUNA_CLIENT_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "client/answer.h"
#include "luna/v1/inference.pb.h"
#include "luna/v1/monitor.pb.h"
#include "luna/v1/session.pb.h"

namespace luna::client {

// Keeps the order in which keys are added.
using Json = nlohmann::ordered_json;

std::string_view Name(v1::FinishReason reason);   // "stop", "length", ...
std::string_view Name(v1::Limit limit);           // "max_tokens", ...; "" where there is none
std::string_view Name(v1::SessionState state);    // "idle", "waiting", "prefill", "decode"
std::string_view Name(v1::ContextPolicy policy);  // "refuse", "drop_oldest"

Json ToJson(const v1::Usage& usage);
Json ToJson(const v1::TokenLogprobs& logprobs);
// text, token_ids, finish_reason, limit?, stop?, stop_id?, turn, seed, usage, logprobs?.
Json ToJson(const Answer& answer);
// continuations: of each what an answer has, and error {code, message} where an error event ended
// it.
Json ToJson(const Answers& answers);
Json ToJson(const v1::Session& session);
Json ToJson(const v1::SessionMemory& memory);
Json ToJson(const v1::PoolMemory& pool);
Json ToJson(const v1::Load& load);
// pool, load, sessions.
Json ToJson(const v1::MemorySnapshot& snapshot);
Json ToJson(const v1::GetModelResponse& model);

// One document on lines of its own; bytes that are not UTF-8 become U+FFFD instead of an error.
std::string Dump(const Json& json);

}  // namespace luna::client

#endif  // LUNA_CLIENT_JSON_H_
