#include "client/json.h"

#include <google/protobuf/timestamp.pb.h>

#include <utility>

#include "core/base/absl_view.h"

namespace luna::client {
namespace {

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

Json ToJson(const v1::SamplingParams& sampling) {
  Json json = Json::object();
  if (sampling.has_temperature()) json["temperature"] = sampling.temperature();
  if (sampling.has_top_k()) json["top_k"] = sampling.top_k();
  if (sampling.has_top_p()) json["top_p"] = sampling.top_p();
  if (sampling.has_min_p()) json["min_p"] = sampling.min_p();
  if (sampling.has_repetition_penalty()) {
    json["repetition_penalty"] = sampling.repetition_penalty();
  }
  if (sampling.has_presence_penalty()) json["presence_penalty"] = sampling.presence_penalty();
  if (sampling.has_frequency_penalty()) json["frequency_penalty"] = sampling.frequency_penalty();
  if (sampling.has_seed()) json["seed"] = sampling.seed();
  return json;
}

}  // namespace

std::string_view Name(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_CANCELLED:
      return "cancelled";
    case v1::FINISH_REASON_DEADLINE:
      return "deadline";
    case v1::FINISH_REASON_ERROR:
      return "error";
    default:
      return "unspecified";
  }
}

std::string_view Name(v1::Limit limit) {
  switch (limit) {
    case v1::LIMIT_MAX_TOKENS:
      return "max_tokens";
    case v1::LIMIT_CONTEXT:
      return "context";
    case v1::LIMIT_QUOTA:
      return "quota";
    case v1::LIMIT_POOL:
      return "pool";
    default:
      return "";
  }
}

std::string_view Name(v1::SessionState state) {
  switch (state) {
    case v1::SESSION_STATE_IDLE:
      return "idle";
    case v1::SESSION_STATE_WAITING:
      return "waiting";
    case v1::SESSION_STATE_PREFILL:
      return "prefill";
    case v1::SESSION_STATE_DECODE:
      return "decode";
    default:
      return "unspecified";
  }
}

std::string_view Name(v1::ContextPolicy policy) {
  return policy == v1::CONTEXT_POLICY_DROP_OLDEST ? "drop_oldest" : "refuse";
}

Json ToJson(const v1::Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens()},
          {"cached_tokens", usage.cached_tokens()},
          {"completion_tokens", usage.completion_tokens()},
          {"preemptions", usage.preemptions()},
          {"queue_ms", usage.queue_ms()},
          {"ttft_ms", usage.ttft_ms()},
          {"total_ms", usage.total_ms()},
          {"peak_blocks", usage.peak_blocks()}};
}

Json ToJson(const v1::TokenLogprobs& logprobs) {
  Json top = Json::array();
  for (const auto& entry : logprobs.top()) {
    top.push_back({{"token_id", entry.token_id()}, {"logprob", entry.logprob()}});
  }
  return {{"token_id", logprobs.token_id()}, {"logprob", logprobs.logprob()}, {"top", top}};
}

Json ToJson(const Answer& answer) {
  Json json = {{"text", answer.text},
               {"token_ids", answer.token_ids},
               {"finish_reason", Name(answer.finished.reason())}};
  if (answer.finished.limit() != v1::LIMIT_UNSPECIFIED) {
    json["limit"] = Name(answer.finished.limit());
  }
  if (!answer.finished.stop().empty()) json["stop"] = answer.finished.stop();
  if (answer.finished.has_stop_id()) json["stop_id"] = answer.finished.stop_id();
  json["turn"] = answer.finished.turn();
  json["seed"] = answer.accepted.seed();
  json["usage"] = ToJson(answer.finished.usage());
  if (!answer.logprobs.empty()) {
    json["logprobs"] = Json::array();
    for (const auto& logprobs : answer.logprobs) json["logprobs"].push_back(ToJson(logprobs));
  }
  return json;
}

Json ToJson(const Answers& answers) {
  Json continuations = Json::array();
  for (size_t i = 0; i < answers.size(); ++i) {
    Json json = ToJson(answers.answer(i));
    const absl::Status& status = answers.status(i);
    if (!status.ok()) {
      json["finish_reason"] = Name(v1::FINISH_REASON_ERROR);
      json["error"] = {{"code", absl::StatusCodeToString(status.code())},
                       {"message", StdView(status.message())}};
    }
    continuations.push_back(std::move(json));
  }
  return {{"continuations", std::move(continuations)}};
}

Json ToJson(const v1::Session& session) {
  return {{"id", session.id()},
          {"label", session.label()},
          {"state", Name(session.state())},
          {"turn", session.turn()},
          {"tokens", session.tokens()},
          {"context_left", session.context_left()},
          {"system", session.system()},
          {"default_sampling", ToJson(session.default_sampling())},
          {"guarantee_bytes", session.guarantee_bytes()},
          {"quota_bytes", session.quota_bytes()},
          {"context_policy", Name(session.context_policy())},
          {"dropped_turns", session.dropped_turns()},
          {"last_text", session.last_text()},
          {"created", Seconds(session.created())},
          {"last_active", Seconds(session.last_active())},
          {"other_numerics", session.other_numerics()}};
}

Json ToJson(const v1::SessionMemory& memory) {
  return {{"session_id", memory.session_id()},
          {"label", memory.label()},
          {"own", memory.own()},
          {"ephemeral", memory.ephemeral()},
          {"state", Name(memory.state())},
          {"turn", memory.turn()},
          {"tokens", memory.tokens()},
          {"generated_tokens", memory.generated_tokens()},
          {"tokens_per_s", memory.tokens_per_s()},
          {"private_blocks", memory.private_blocks()},
          {"shared_blocks", memory.shared_blocks()},
          {"used_bytes", memory.used_bytes()},
          {"charged_bytes", memory.charged_bytes()},
          {"split_bytes", memory.split_bytes()},
          {"slack_bytes", memory.slack_bytes()},
          {"peak_bytes", memory.peak_bytes()},
          {"guaranteed_bytes", memory.guaranteed_bytes()},
          {"quota_bytes", memory.quota_bytes()},
          {"evictions", memory.evictions()},
          {"recomputed_tokens", memory.recomputed_tokens()},
          {"last_active", Seconds(memory.last_active())}};
}

Json ToJson(const v1::PoolMemory& pool) {
  return {{"tick", pool.tick()},
          {"block_bytes", pool.block_bytes()},
          {"block_tokens", pool.block_tokens()},
          {"bytes_per_token", pool.bytes_per_token()},
          {"total_blocks", pool.total_blocks()},
          {"free_blocks", pool.free_blocks()},
          {"cached_blocks", pool.cached_blocks()},
          {"charged_blocks", pool.charged_blocks()},
          {"shared_blocks", pool.shared_blocks()},
          {"reserved_blocks", pool.reserved_blocks()},
          {"peak_charged_blocks", pool.peak_charged_blocks()},
          {"device_free_bytes", pool.device_free_bytes()},
          {"device_total_bytes", pool.device_total_bytes()},
          {"weights_bytes", pool.weights_bytes()}};
}

Json ToJson(const v1::Load& load) {
  return {{"tick", load.tick()},
          {"running", load.running()},
          {"waiting", load.waiting()},
          {"sessions", load.sessions()},
          {"max_sessions", load.max_sessions()},
          {"queue_limit", load.queue_limit()},
          {"tokens_per_s", load.tokens_per_s()},
          {"prefill_tokens_per_s", load.prefill_tokens_per_s()},
          {"step_ms", load.step_ms()},
          {"total_tokens", load.total_tokens()},
          {"total_prompt_tokens", load.total_prompt_tokens()},
          {"preemptions", load.preemptions()},
          {"finished", load.finished()},
          {"draining", load.draining()},
          {"uptime_s", load.uptime_s()}};
}

Json ToJson(const v1::MemorySnapshot& snapshot) {
  Json sessions = Json::array();
  for (const auto& session : snapshot.sessions()) sessions.push_back(ToJson(session));
  return {
      {"pool", ToJson(snapshot.pool())}, {"load", ToJson(snapshot.load())}, {"sessions", sessions}};
}

Json ToJson(const v1::GetModelResponse& model) {
  Json end_ids = Json::array();
  for (const uint32_t id : model.end_ids()) end_ids.push_back(id);
  return {{"name", model.name()},
          {"architecture", model.architecture()},
          {"source", model.source()},
          {"digest", model.digest()},
          {"backend", model.backend()},
          {"numerics", model.numerics()},
          {"context_length", model.context_length()},
          {"vocab_size", model.vocab_size()},
          {"num_layers", model.num_layers()},
          {"hidden_size", model.hidden_size()},
          {"num_heads", model.num_heads()},
          {"num_kv_heads", model.num_kv_heads()},
          {"weights_bytes", model.weights_bytes()},
          {"kv_bytes_per_token", model.kv_bytes_per_token()},
          {"has_chat_template", model.has_chat_template()},
          {"chat_family", model.chat_family()},
          {"default_system", model.default_system()},
          {"end_ids", end_ids},
          {"server_version", model.server_version()}};
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace luna::client
