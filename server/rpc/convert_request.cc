#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "core/sample/params.h"
#include "server/rpc/convert.h"

namespace luna::rpc {
namespace {

std::string Join(std::string_view parent, std::string_view field) {
  return absl::StrCat(AbslView(parent), parent.empty() ? "" : ".", AbslView(field));
}

// Gives a status of sample::Validate, whose message begins with "<field>: ", its place in the
// request.
absl::Status InField(const absl::Status& status, std::string_view parent) {
  if (status.ok()) return status;
  const std::string_view message = StdView(status.message());
  const size_t colon = message.find(": ");
  if (colon == std::string_view::npos) return status;
  const std::string_view field = message.substr(0, colon);
  const std::string_view reason = message.substr(colon + 2);
  if (field == "num_logprobs") return InvalidField("response_options.logprobs", reason);
  return InvalidField(Join(parent, field), reason);
}

absl::StatusOr<TokenId> ToTokenId(uint32_t id, std::string_view field, size_t index,
                                  int vocab_size) {
  if (id < static_cast<uint32_t>(vocab_size)) return static_cast<TokenId>(id);
  return InvalidField(absl::StrCat(AbslView(field), "[", index, "]"),
                      absl::StrCat("token id ", id, " is outside the vocabulary of ", vocab_size));
}

absl::StatusOr<sample::StopParams> ToStopParams(const v1::StoppingParams& params, int vocab_size) {
  sample::StopParams out;
  if (params.has_max_tokens()) out.max_tokens = params.max_tokens();
  out.min_tokens = params.min_tokens();
  out.stop.assign(params.stop().begin(), params.stop().end());
  LUNA_ASSIGN_OR_RETURN(out.stop_ids,
                        ToTokenIds(params.stop_ids(), "stopping.stop_ids", vocab_size));
  out.ignore_eos = params.ignore_eos();
  LUNA_RETURN_IF_ERROR(InField(sample::Validate(out, vocab_size), "stopping"));
  return out;
}

absl::StatusOr<int> ToNumLogprobs(const v1::ResponseOptions& options, int vocab_size) {
  if (!options.has_logprobs()) return -1;
  const int64_t limit = std::min(sample::kMaxLogprobs, vocab_size);
  if (options.logprobs() > limit) {
    return InvalidField("response_options.logprobs",
                        absl::StrCat(options.logprobs(), " is outside [0, ", limit, "]"));
  }
  return static_cast<int>(options.logprobs());
}

absl::Status CheckFits(std::string_view field, int64_t num_tokens, const Serving& serving) {
  if (num_tokens <= serving.context()) return absl::OkStatus();
  return WithField(
      absl::OutOfRangeError(absl::StrCat(AbslView(field), ": the prompt has ", num_tokens,
                                         " tokens; the context is ", serving.context())),
      field);
}

// Refuses, before any work, what cannot fit however it is cut: no token stands for more bytes than
// the longest one, and normalization shortens Hangul at most by three.
absl::Status CheckBytes(std::string_view field, size_t bytes, const Serving& serving) {
  constexpr size_t kShortening = 4;
  const size_t limit = (static_cast<size_t>(serving.context()) + 1) * kShortening *
                       std::max<size_t>(serving.longest_token_bytes, 1);
  if (bytes < limit) return absl::OkStatus();
  return WithField(absl::OutOfRangeError(absl::StrCat(AbslView(field), ": the prompt has ", bytes,
                                                      " bytes; the context of ", serving.context(),
                                                      " tokens holds less than ", limit)),
                   field);
}

absl::StatusOr<engine::TurnInput> FromMessages(std::span<const text::ChatMessage> messages,
                                               std::string_view field, const Serving& serving) {
  absl::StatusOr<text::RenderedTurn> turn = serving.chat->RenderTurn(messages);
  if (!turn.ok()) {
    return FieldOf(turn.status()).empty() ? WithField(turn.status(), field) : turn.status();
  }
  engine::TurnInput input;
  input.tokens = std::move(turn->body);
  input.system_tokens = turn->system_tokens;
  input.after_system = std::move(turn->after_system);
  if (messages.front().role == text::Role::kSystem) input.opening = std::move(turn->opening);
  return input;
}

absl::StatusOr<engine::TurnInput> FromText(const std::string& text, const Serving& serving) {
  LUNA_RETURN_IF_ERROR(CheckBytes("text", text.size(), serving));
  if (serving.chat != nullptr) {
    const text::ChatMessage message{text::Role::kUser, text};
    return FromMessages({&message, 1}, "text", serving);
  }
  absl::StatusOr<std::vector<TokenId>> tokens = serving.tokenizer->Encode(text);
  if (!tokens.ok()) return WithField(tokens.status(), "text");
  engine::TurnInput input;
  input.tokens = *std::move(tokens);
  return input;
}

absl::StatusOr<text::ChatMessage> ToMessage(const v1::Message& message, int index) {
  switch (message.role()) {
    case v1::ROLE_SYSTEM:
      return text::ChatMessage{text::Role::kSystem, message.content()};
    case v1::ROLE_USER:
      return text::ChatMessage{text::Role::kUser, message.content()};
    case v1::ROLE_ASSISTANT:
      return text::ChatMessage{text::Role::kAssistant, message.content()};
    default:
      return InvalidField(
          absl::StrCat("messages[", index, "].role"),
          absl::StrCat(static_cast<int>(message.role()), " is none of SYSTEM, USER, ASSISTANT"));
  }
}

absl::StatusOr<engine::TurnInput> FromMessages(const v1::Messages& messages,
                                               const Serving& serving) {
  if (serving.chat == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("messages need a chat template, and model '",
                                                      serving.name, "' has none: send text"));
  }
  if (messages.messages().empty()) return InvalidField("messages", "0 messages; at least 1");
  std::vector<text::ChatMessage> converted;
  size_t bytes = 0;
  for (const v1::Message& message : messages.messages()) {
    LUNA_ASSIGN_OR_RETURN(text::ChatMessage one,
                          ToMessage(message, static_cast<int>(converted.size())));
    bytes += one.content.size();
    converted.push_back(std::move(one));
  }
  LUNA_RETURN_IF_ERROR(CheckBytes("messages", bytes, serving));
  return FromMessages(converted, "messages", serving);
}

absl::StatusOr<engine::TurnInput> ToInput(const v1::GenerateRequest& request,
                                          const Serving& serving) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kText:
      return FromText(request.text(), serving);
    case v1::GenerateRequest::kMessages:
      return FromMessages(request.messages(), serving);
    case v1::GenerateRequest::kTokenIds: {
      engine::TurnInput input;
      LUNA_RETURN_IF_ERROR(CheckFits("token_ids", request.token_ids().ids_size(), serving));
      LUNA_ASSIGN_OR_RETURN(input.tokens, ToTokenIds(request.token_ids().ids(), "token_ids.ids",
                                                     serving.tokenizer->vocab_size()));
      input.raw = true;
      return input;
    }
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return InvalidField("input", "nothing to answer: set text, token_ids or messages");
}

absl::Status CheckInput(const engine::TurnInput& input, const v1::GenerateRequest& request,
                        const Serving& serving) {
  const char* field = request.has_text()       ? "text"
                      : request.has_messages() ? "messages"
                                               : "token_ids";
  const size_t opening = input.opening.has_value() ? input.opening->size() : 0;
  LUNA_RETURN_IF_ERROR(
      CheckFits(field, static_cast<int64_t>(input.tokens.size() + opening), serving));
  // On a session the history may be enough to go on from; the engine knows.
  const bool begins_with_opening = !input.raw && serving.has_opening;
  if (request.session_id().empty() && input.tokens.empty() && opening == 0 &&
      !begins_with_opening) {
    return InvalidField(field, "the prompt has 0 tokens; at least 1");
  }
  return absl::OkStatus();
}

absl::StatusOr<engine::SystemPrompt> ToSystem(const std::string& system, const Serving& serving) {
  if (serving.chat == nullptr) {
    return WithField(absl::FailedPreconditionError(
                         absl::StrCat("system: a system prompt needs a chat template, and model '",
                                      serving.name, "' has none")),
                     "system");
  }
  LUNA_RETURN_IF_ERROR(CheckBytes("system", system.size(), serving));
  absl::StatusOr<std::vector<TokenId>> opening = serving.chat->RenderOpening(system);
  if (!opening.ok()) return WithField(opening.status(), "system");
  LUNA_RETURN_IF_ERROR(CheckFits("system", static_cast<int64_t>(opening->size()), serving));
  return engine::SystemPrompt{system, *std::move(opening)};
}

absl::StatusOr<engine::ContextPolicy> ToPolicy(v1::ContextPolicy policy) {
  switch (policy) {
    case v1::CONTEXT_POLICY_UNSPECIFIED:
    case v1::CONTEXT_POLICY_REFUSE:
      return engine::ContextPolicy::kRefuse;
    case v1::CONTEXT_POLICY_DROP_OLDEST:
      return engine::ContextPolicy::kDropOldest;
    default:
      return InvalidField("context_policy", absl::StrCat(static_cast<int>(policy),
                                                         " is neither REFUSE nor DROP_OLDEST"));
  }
}

absl::StatusOr<int64_t> ToQuota(uint64_t bytes, const Serving& serving) {
  if (bytes >= static_cast<uint64_t>(serving.layout.block_bytes()) &&
      bytes <= static_cast<uint64_t>(serving.max_quota_bytes)) {
    return static_cast<int64_t>(bytes);
  }
  return InvalidField("quota_bytes",
                      absl::StrCat(bytes, " is outside [", serving.layout.block_bytes(),
                                   " (one block), ", serving.max_quota_bytes, "]"));
}

}  // namespace

absl::Status CheckLength(std::string_view field, std::string_view value, size_t limit) {
  if (value.size() <= limit) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(value.size(), " bytes; the limit is ", limit));
}

absl::StatusOr<std::vector<TokenId>> ToTokenIds(
    const google::protobuf::RepeatedField<uint32_t>& ids, std::string_view field, int vocab_size) {
  std::vector<TokenId> out;
  out.reserve(ids.size());
  for (const uint32_t id : ids) {
    LUNA_ASSIGN_OR_RETURN(const TokenId token, ToTokenId(id, field, out.size(), vocab_size));
    out.push_back(token);
  }
  return out;
}

absl::StatusOr<sample::SamplingOverrides> ToOverrides(const v1::SamplingParams& params,
                                                      std::string_view field, int vocab_size) {
  sample::SamplingOverrides out;
  if (params.has_temperature()) out.temperature = params.temperature();
  if (params.has_top_k()) out.top_k = params.top_k();
  if (params.has_top_p()) out.top_p = params.top_p();
  if (params.has_min_p()) out.min_p = params.min_p();
  if (params.has_repetition_penalty()) out.repetition_penalty = params.repetition_penalty();
  if (params.has_presence_penalty()) out.presence_penalty = params.presence_penalty();
  if (params.has_frequency_penalty()) out.frequency_penalty = params.frequency_penalty();
  if (params.has_seed()) out.seed = params.seed();
  if (!params.logit_bias().empty()) {
    auto& bias = out.logit_bias.emplace();
    const std::string path = Join(field, "logit_bias");
    for (const v1::LogitBias& one : params.logit_bias()) {
      LUNA_ASSIGN_OR_RETURN(const TokenId id,
                            ToTokenId(one.token_id(), path, bias.size(), vocab_size));
      bias.emplace_back(id, one.bias());
    }
  }
  LUNA_RETURN_IF_ERROR(InField(sample::Validate(sample::Resolve(out), vocab_size), field));
  return out;
}

absl::StatusOr<engine::Request> ToRequest(const v1::GenerateRequest& request,
                                          const Serving& serving) {
  const int vocab_size = serving.tokenizer->vocab_size();
  engine::Request out;
  LUNA_RETURN_IF_ERROR(CheckLength("request_id", request.request_id(), kMaxRequestIdBytes));
  out.request_id = request.request_id();
  out.session_key = request.session_id();
  if (request.has_expected_turn()) out.expected_turn = request.expected_turn();
  out.priority = request.priority();
  if (out.priority < -kMaxPriority || out.priority > kMaxPriority) {
    return InvalidField("priority", absl::StrCat(out.priority, " is outside [", -kMaxPriority, ", ",
                                                 kMaxPriority, "]"));
  }
  LUNA_ASSIGN_OR_RETURN(out.sampling, ToOverrides(request.sampling(), "sampling", vocab_size));
  LUNA_ASSIGN_OR_RETURN(out.stopping, ToStopParams(request.stopping(), vocab_size));
  LUNA_ASSIGN_OR_RETURN(out.num_logprobs, ToNumLogprobs(request.response_options(), vocab_size));
  // Last, because it is the only part that takes time.
  LUNA_ASSIGN_OR_RETURN(out.input, ToInput(request, serving));
  LUNA_RETURN_IF_ERROR(CheckInput(out.input, request, serving));
  return out;
}

absl::StatusOr<engine::SessionSpec> ToSessionSpec(const v1::CreateSessionRequest& request,
                                                  const Serving& serving) {
  engine::SessionSpec spec;
  LUNA_RETURN_IF_ERROR(CheckLength("label", request.label(), kMaxLabelBytes));
  spec.label = request.label();
  LUNA_ASSIGN_OR_RETURN(
      spec.default_sampling,
      ToOverrides(request.default_sampling(), "default_sampling", serving.tokenizer->vocab_size()));
  if (request.has_quota_bytes()) {
    LUNA_ASSIGN_OR_RETURN(spec.quota_bytes, ToQuota(request.quota_bytes(), serving));
  }
  LUNA_ASSIGN_OR_RETURN(spec.context_policy, ToPolicy(request.context_policy()));
  if (request.has_system()) {
    LUNA_ASSIGN_OR_RETURN(spec.system, ToSystem(request.system(), serving));
  }
  return spec;
}

absl::StatusOr<engine::SessionUpdate> ToSessionUpdate(const v1::UpdateSessionRequest& request,
                                                      const Serving& serving) {
  engine::SessionUpdate update;
  if (request.has_label()) {
    LUNA_RETURN_IF_ERROR(CheckLength("label", request.label(), kMaxLabelBytes));
    update.label = request.label();
  }
  if (request.has_default_sampling()) {
    LUNA_ASSIGN_OR_RETURN(update.default_sampling,
                          ToOverrides(request.default_sampling(), "default_sampling",
                                      serving.tokenizer->vocab_size()));
  }
  if (request.has_quota_bytes()) {
    LUNA_ASSIGN_OR_RETURN(update.quota_bytes, ToQuota(request.quota_bytes(), serving));
  }
  if (request.context_policy() != v1::CONTEXT_POLICY_UNSPECIFIED) {
    LUNA_ASSIGN_OR_RETURN(update.context_policy, ToPolicy(request.context_policy()));
  }
  if (request.has_system()) {
    LUNA_ASSIGN_OR_RETURN(update.system, ToSystem(request.system(), serving));
  }
  return update;
}

}  // namespace luna::rpc
