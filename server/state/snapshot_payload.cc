#include "server/state/snapshot_payload.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/check.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "server/state/saved_session_check.h"
#include "server/state/snapshot.pb.h"

namespace luna::state {
namespace {

using engine::SavedSession;
using Tokens = google::protobuf::RepeatedField<int32_t>;

constexpr uint32_t kNanosPerSecond = 1'000'000'000;

// --- to the message
// -------------------------------------------------------------------------------

void SetTokens(const std::vector<TokenId>& tokens, Tokens* out) {
  out->Add(tokens.begin(), tokens.end());
}

void SetTime(absl::Time time, v1::Time* out) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  out->set_seconds(seconds);
  const absl::Duration rest = time - absl::FromUnixSeconds(seconds);
  out->set_nanos(static_cast<uint32_t>(absl::ToInt64Nanoseconds(rest)));
}

v1::ContextPolicy ToPolicy(engine::ContextPolicy policy) {
  switch (policy) {
    case engine::ContextPolicy::kRefuse:
      return v1::CONTEXT_POLICY_REFUSE;
    case engine::ContextPolicy::kDropOldest:
      return v1::CONTEXT_POLICY_DROP_OLDEST;
  }
  return v1::CONTEXT_POLICY_UNSPECIFIED;
}

void SetSampling(const sample::SamplingOverrides& sampling, v1::Sampling* out) {
  if (sampling.temperature) out->set_temperature(*sampling.temperature);
  if (sampling.top_k) out->set_top_k(*sampling.top_k);
  if (sampling.top_p) out->set_top_p(*sampling.top_p);
  if (sampling.min_p) out->set_min_p(*sampling.min_p);
  if (sampling.repetition_penalty) out->set_repetition_penalty(*sampling.repetition_penalty);
  if (sampling.presence_penalty) out->set_presence_penalty(*sampling.presence_penalty);
  if (sampling.frequency_penalty) out->set_frequency_penalty(*sampling.frequency_penalty);
  if (sampling.seed) out->set_seed(*sampling.seed);
  if (!sampling.logit_bias) return;
  out->set_has_logit_bias(true);
  for (const auto& [token, bias] : *sampling.logit_bias) {
    out->add_bias_tokens(token);
    out->add_bias_values(bias);
  }
}

void SetTurn(const engine::TurnRecord& turn, v1::Turn* out) {
  out->set_begin(turn.begin);
  out->set_body(turn.body);
  out->set_answer(turn.answer);
  out->set_end(turn.end);
  out->set_text(turn.text);
  SetTokens(turn.after_system, out->mutable_after_system());
}

v1::Snapshot ToMessage(const SavedSession& session) {
  v1::Snapshot out;
  out.set_model_digest(session.model_digest);
  out.set_numerics(session.numerics);
  out.set_key(session.key);
  out.set_caller(session.caller);
  out.set_label(session.label);
  SetSampling(session.default_sampling, out.mutable_default_sampling());
  if (session.system) {
    out.mutable_system()->set_text(session.system->text);
    SetTokens(session.system->opening, out.mutable_system()->mutable_opening());
  }
  out.set_context_policy(ToPolicy(session.context_policy));
  out.set_quota_bytes(session.quota_bytes);
  out.set_guarantee_bytes(session.guarantee_bytes);
  out.set_seed_base(session.seeds.base);
  out.set_seeds_drawn(session.seeds.drawn);
  SetTokens(session.history, out.mutable_history());
  for (const engine::TurnRecord& turn : session.turns) SetTurn(turn, out.add_turns());
  out.set_opens_with_system(session.has_system);
  out.set_dropped_turns(session.dropped_turns);
  out.set_generated_tokens(session.generated_tokens);
  SetTime(session.created, out.mutable_created());
  SetTime(session.last_active, out.mutable_last_active());
  return out;
}

// --- from the message
// -----------------------------------------------------------------------------

// A turn of two bytes becomes an object of more than a hundred, so they are counted first.
absl::Status CheckTurnCount(std::string_view payload) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(payload.data()),
                                            static_cast<int>(payload.size()));
  size_t turns = 0;
  while (const uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagFieldNumber(tag) == v1::Snapshot::kTurnsFieldNumber) ++turns;
    if (!WireFormatLite::SkipField(&in, tag)) break;  // where the parser stops too, and refuses
  }
  if (turns <= kMaxSavedTurns) return absl::OkStatus();
  return InvalidField("turns", absl::StrCat(turns, " entries; the limit is ", kMaxSavedTurns));
}

std::vector<TokenId> GetTokens(const Tokens& tokens) { return {tokens.begin(), tokens.end()}; }

absl::StatusOr<absl::Time> GetTime(const v1::Time& time, std::string_view field) {
  if (time.nanos() >= kNanosPerSecond) {
    return InvalidField(field,
                        absl::StrCat(time.nanos(), " nanoseconds; a second has ", kNanosPerSecond));
  }
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::StatusOr<engine::ContextPolicy> GetPolicy(v1::ContextPolicy policy) {
  switch (policy) {
    case v1::CONTEXT_POLICY_REFUSE:
      return engine::ContextPolicy::kRefuse;
    case v1::CONTEXT_POLICY_DROP_OLDEST:
      return engine::ContextPolicy::kDropOldest;
    default:
      return InvalidField("context_policy",
                          absl::StrCat(static_cast<int>(policy), " is none; 1 and 2 are"));
  }
}

absl::StatusOr<sample::SamplingOverrides> GetSampling(const v1::Sampling& in) {
  sample::SamplingOverrides out;
  if (in.has_temperature()) out.temperature = in.temperature();
  if (in.has_top_k()) out.top_k = in.top_k();
  if (in.has_top_p()) out.top_p = in.top_p();
  if (in.has_min_p()) out.min_p = in.min_p();
  if (in.has_repetition_penalty()) out.repetition_penalty = in.repetition_penalty();
  if (in.has_presence_penalty()) out.presence_penalty = in.presence_penalty();
  if (in.has_frequency_penalty()) out.frequency_penalty = in.frequency_penalty();
  if (in.has_seed()) out.seed = in.seed();
  if (in.bias_tokens_size() != in.bias_values_size() ||
      (!in.has_logit_bias() && in.bias_tokens_size() > 0)) {
    return InvalidField("default_sampling.logit_bias",
                        absl::StrCat(in.bias_tokens_size(), " tokens with ", in.bias_values_size(),
                                     " values", in.has_logit_bias() ? "" : " where none is said"));
  }
  if (!in.has_logit_bias()) return out;
  out.logit_bias.emplace();
  out.logit_bias->reserve(in.bias_tokens_size());
  for (int i = 0; i < in.bias_tokens_size(); ++i) {
    out.logit_bias->emplace_back(in.bias_tokens(i), in.bias_values(i));
  }
  return out;
}

engine::TurnRecord GetTurn(const v1::Turn& turn) {
  return {.begin = turn.begin(),
          .body = turn.body(),
          .answer = turn.answer(),
          .end = turn.end(),
          .text = turn.text(),
          .after_system = GetTokens(turn.after_system())};
}

absl::StatusOr<SavedSession> FromMessage(const v1::Snapshot& in) {
  SavedSession out;
  out.model_digest = in.model_digest();
  out.numerics = in.numerics();
  out.key = in.key();
  out.caller = in.caller();
  out.label = in.label();
  LUNA_ASSIGN_OR_RETURN(out.default_sampling, GetSampling(in.default_sampling()));
  if (in.has_system()) {
    out.system = engine::SystemPrompt{in.system().text(), GetTokens(in.system().opening())};
  }
  LUNA_ASSIGN_OR_RETURN(out.context_policy, GetPolicy(in.context_policy()));
  out.quota_bytes = in.quota_bytes();
  out.guarantee_bytes = in.guarantee_bytes();
  out.seeds = {.base = in.seed_base(), .drawn = in.seeds_drawn()};
  out.history = GetTokens(in.history());
  out.turns.reserve(in.turns_size());
  for (const v1::Turn& turn : in.turns()) out.turns.push_back(GetTurn(turn));
  out.has_system = in.opens_with_system();
  out.dropped_turns = in.dropped_turns();
  out.generated_tokens = in.generated_tokens();
  LUNA_ASSIGN_OR_RETURN(out.created, GetTime(in.created(), "created"));
  LUNA_ASSIGN_OR_RETURN(out.last_active, GetTime(in.last_active(), "last_active"));
  return out;
}

absl::StatusOr<SavedSession> Decode(std::string_view payload) {
  LUNA_RETURN_IF_ERROR(CheckTurnCount(payload));
  v1::Snapshot message;
  if (!message.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError(
        absl::StrCat("its ", payload.size(), " bytes of payload are not a session's"));
  }
  LUNA_ASSIGN_OR_RETURN(SavedSession session, FromMessage(message));
  LUNA_RETURN_IF_ERROR(CheckSavedSession(session));
  return session;
}

}  // namespace

std::string EncodePayload(const SavedSession& session) {
  std::string payload;
  LUNA_CHECK(ToMessage(session).SerializeToString(&payload)) << "a session beyond 2 GiB";
  return payload;
}

absl::StatusOr<SavedSession> DecodePayload(std::string_view payload, std::string_view source) {
  absl::StatusOr<SavedSession> session = Decode(payload);
  if (session.ok()) return session;
  const absl::Status& found = session.status();
  absl::Status status(found.code(), absl::StrCat(AbslView(source), ": ", found.message()));
  const std::string field = FieldOf(found);
  return field.empty() ? status : WithField(std::move(status), field);
}

}  // namespace luna::state
