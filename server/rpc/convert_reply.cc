#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "server/rpc/convert.h"

namespace luna::rpc {
namespace {

google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  return google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(time));
}

v1::SamplingParams ToProto(const sample::SamplingParams& params, uint64_t seed) {
  v1::SamplingParams out;
  out.set_temperature(params.temperature);
  out.set_top_k(static_cast<uint32_t>(params.top_k));
  out.set_top_p(params.top_p);
  out.set_min_p(params.min_p);
  out.set_repetition_penalty(params.repetition_penalty);
  out.set_presence_penalty(params.presence_penalty);
  out.set_frequency_penalty(params.frequency_penalty);
  for (const auto& [token, bias] : params.logit_bias) {
    v1::LogitBias* one = out.add_logit_bias();
    one->set_token_id(static_cast<uint32_t>(token));
    one->set_bias(bias);
  }
  out.set_seed(seed);
  return out;
}

v1::SamplingParams ToProto(const sample::SamplingOverrides& overrides) {
  v1::SamplingParams out;
  if (overrides.temperature) out.set_temperature(*overrides.temperature);
  if (overrides.top_k) out.set_top_k(static_cast<uint32_t>(*overrides.top_k));
  if (overrides.top_p) out.set_top_p(*overrides.top_p);
  if (overrides.min_p) out.set_min_p(*overrides.min_p);
  if (overrides.repetition_penalty) out.set_repetition_penalty(*overrides.repetition_penalty);
  if (overrides.presence_penalty) out.set_presence_penalty(*overrides.presence_penalty);
  if (overrides.frequency_penalty) out.set_frequency_penalty(*overrides.frequency_penalty);
  if (overrides.seed) out.set_seed(*overrides.seed);
  if (overrides.logit_bias) {
    for (const auto& [token, bias] : *overrides.logit_bias) {
      v1::LogitBias* one = out.add_logit_bias();
      one->set_token_id(static_cast<uint32_t>(token));
      one->set_bias(bias);
    }
  }
  return out;
}

v1::StoppingParams ToProto(const sample::StopParams& params) {
  v1::StoppingParams out;
  if (params.max_tokens >= 0) out.set_max_tokens(static_cast<uint32_t>(params.max_tokens));
  out.set_min_tokens(static_cast<uint32_t>(params.min_tokens));
  for (const std::string& stop : params.stop) out.add_stop(stop);
  for (const TokenId id : params.stop_ids) out.add_stop_ids(static_cast<uint32_t>(id));
  out.set_ignore_eos(params.ignore_eos);
  return out;
}

v1::TokenLogprobs ToProto(const engine::TokenLogprobs& logprobs) {
  v1::TokenLogprobs out;
  out.set_token_id(static_cast<uint32_t>(logprobs.token));
  out.set_logprob(logprobs.logprob);
  for (const sample::TokenLogprob& top : logprobs.top) {
    v1::TopLogprob* one = out.add_top();
    one->set_token_id(static_cast<uint32_t>(top.token));
    one->set_logprob(top.logprob);
  }
  return out;
}

v1::Usage ToProto(const engine::Usage& usage) {
  v1::Usage out;
  out.set_prompt_tokens(usage.prompt_tokens);
  out.set_cached_tokens(usage.cached_tokens);
  out.set_completion_tokens(usage.completion_tokens);
  out.set_preemptions(usage.preemptions);
  out.set_queue_ms(usage.queue_ms);
  out.set_ttft_ms(usage.ttft_ms);
  out.set_total_ms(usage.total_ms);
  out.set_peak_blocks(usage.peak_blocks);
  return out;
}

v1::FinishReason ToProto(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case engine::FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case engine::FinishReason::kCancelled:
      return v1::FINISH_REASON_CANCELLED;
    case engine::FinishReason::kDeadline:
      return v1::FINISH_REASON_DEADLINE;
    case engine::FinishReason::kError:
      return v1::FINISH_REASON_ERROR;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

v1::Limit ToProto(engine::Limit limit) {
  switch (limit) {
    case engine::Limit::kNone:
      return v1::LIMIT_UNSPECIFIED;
    case engine::Limit::kMaxTokens:
      return v1::LIMIT_MAX_TOKENS;
    case engine::Limit::kContext:
      return v1::LIMIT_CONTEXT;
    case engine::Limit::kQuota:
      return v1::LIMIT_QUOTA;
    case engine::Limit::kPool:
      return v1::LIMIT_POOL;
  }
  return v1::LIMIT_UNSPECIFIED;
}

v1::SessionState ToProto(engine::SessionState state) {
  switch (state) {
    case engine::SessionState::kIdle:
      return v1::SESSION_STATE_IDLE;
    case engine::SessionState::kWaiting:
      return v1::SESSION_STATE_WAITING;
    case engine::SessionState::kPrefill:
      return v1::SESSION_STATE_PREFILL;
    case engine::SessionState::kDecode:
      return v1::SESSION_STATE_DECODE;
  }
  return v1::SESSION_STATE_UNSPECIFIED;
}

std::string_view FamilyName(text::ChatFamily family) {
  switch (family) {
    case text::ChatFamily::kChatMl:
      return "chatml";
    case text::ChatFamily::kLlama2:
      return "llama2";
    case text::ChatFamily::kLlama3:
      return "llama3";
    case text::ChatFamily::kGemma:
      return "gemma";
  }
  return "";
}

}  // namespace

v1::Accepted ToProto(const engine::Accepted& accepted) {
  v1::Accepted out;
  out.set_generation_id(accepted.generation_id);
  out.set_queue_position(accepted.queue_position);
  *out.mutable_sampling() = ToProto(accepted.sampling, accepted.seed);
  *out.mutable_stopping() = ToProto(accepted.stopping);
  out.set_seed(accepted.seed);
  out.set_turn(accepted.turn);
  return out;
}

v1::Prompt ToProto(const engine::PromptDone& prompt) {
  v1::Prompt out;
  out.set_tokens(prompt.tokens);
  out.set_cached_tokens(prompt.cached_tokens);
  return out;
}

v1::Delta ToProto(engine::Delta& delta) {
  v1::Delta out;
  out.set_text(std::move(delta.text));
  out.mutable_token_ids()->Assign(delta.tokens.begin(), delta.tokens.end());
  for (const engine::TokenLogprobs& one : delta.logprobs) *out.add_logprobs() = ToProto(one);
  return out;
}

engine::Delta SplitFront(engine::Delta& delta) {
  engine::Delta front;
  front.text = std::exchange(delta.text, {});
  const auto cut = [](auto& from, auto& to) {
    const auto end = from.begin() + std::min(from.size(), kMaxDeltaTokens);
    to.assign(std::make_move_iterator(from.begin()), std::make_move_iterator(end));
    from.erase(from.begin(), end);
  };
  cut(delta.tokens, front.tokens);
  cut(delta.logprobs, front.logprobs);
  return front;
}

v1::Finished ToProto(const engine::Finished& finished) {
  v1::Finished out;
  out.set_reason(ToProto(finished.reason));
  out.set_limit(ToProto(finished.limit));
  out.set_stop(finished.stop);
  if (finished.stop_id) out.set_stop_id(static_cast<uint32_t>(*finished.stop_id));
  *out.mutable_usage() = ToProto(finished.usage);
  out.set_turn(finished.turn);
  return out;
}

void Append(const engine::Delta& delta, v1::GenerateResponse& response) {
  response.mutable_text()->append(delta.text);
  response.mutable_token_ids()->Add(delta.tokens.begin(), delta.tokens.end());
  for (const engine::TokenLogprobs& one : delta.logprobs) *response.add_logprobs() = ToProto(one);
}

v1::Session ToProto(const engine::SessionInfo& info) {
  v1::Session out;
  out.set_id(info.key);
  out.set_label(info.label);
  out.set_turn(info.turn);
  out.set_tokens(info.tokens);
  out.set_context_left(info.context_left);
  *out.mutable_default_sampling() = ToProto(info.default_sampling);
  out.set_system(info.system);
  out.set_guarantee_bytes(static_cast<uint64_t>(info.guarantee_bytes));
  out.set_quota_bytes(static_cast<uint64_t>(info.quota_bytes));
  out.set_context_policy(info.context_policy == engine::ContextPolicy::kDropOldest
                             ? v1::CONTEXT_POLICY_DROP_OLDEST
                             : v1::CONTEXT_POLICY_REFUSE);
  out.set_state(ToProto(info.state));
  out.set_last_text(info.last_text);
  out.set_dropped_turns(info.dropped_turns);
  out.set_other_numerics(info.other_numerics);
  *out.mutable_created() = ToTimestamp(info.created);
  *out.mutable_last_active() = ToTimestamp(info.last_active);
  return out;
}

std::string Handle(SessionId id) { return absl::StrCat("s", id.value()); }

engine::SessionRef ToSessionRef(const std::string& name) {
  uint64_t number = 0;
  if (name.starts_with('s') && absl::SimpleAtoi(name.substr(1), &number)) return SessionId(number);
  return name;
}

v1::PoolMemory ToPool(const engine::Snapshot& snapshot) {
  const engine::PoolMemory& pool = snapshot.pool;
  v1::PoolMemory out;
  out.set_tick(snapshot.tick);
  out.set_block_bytes(static_cast<uint64_t>(pool.block_bytes));
  out.set_block_tokens(static_cast<uint32_t>(pool.block_tokens));
  out.set_total_blocks(static_cast<uint64_t>(pool.total_blocks));
  out.set_free_blocks(static_cast<uint64_t>(pool.free_blocks));
  out.set_cached_blocks(static_cast<uint64_t>(pool.cached_blocks));
  out.set_charged_blocks(static_cast<uint64_t>(pool.charged_blocks));
  out.set_reserved_blocks(static_cast<uint64_t>(pool.reserved_blocks));
  out.set_bytes_per_token(static_cast<uint64_t>(pool.bytes_per_token));
  out.set_weights_bytes(static_cast<uint64_t>(pool.weights_bytes));
  out.set_peak_charged_blocks(static_cast<uint64_t>(pool.peak_charged_blocks));
  out.set_device_free_bytes(static_cast<uint64_t>(pool.device_free_bytes));
  out.set_device_total_bytes(static_cast<uint64_t>(pool.device_total_bytes));
  out.set_shared_blocks(static_cast<uint64_t>(pool.shared_blocks));
  return out;
}

v1::Load ToLoad(const engine::Snapshot& snapshot) {
  const engine::Load& load = snapshot.load;
  v1::Load out;
  out.set_tick(snapshot.tick);
  out.set_running(load.running);
  out.set_waiting(load.waiting);
  out.set_sessions(load.sessions);
  out.set_max_sessions(load.max_sessions);
  out.set_queue_limit(load.queue_limit);
  out.set_tokens_per_s(load.tokens_per_s);
  out.set_prefill_tokens_per_s(load.prefill_tokens_per_s);
  out.set_step_ms(load.step_ms);
  out.set_total_tokens(load.total_tokens);
  out.set_total_prompt_tokens(load.total_prompt_tokens);
  out.set_preemptions(load.preemptions);
  out.set_finished(load.finished);
  out.set_draining(load.draining);
  out.set_uptime_s(load.uptime_s);
  return out;
}

v1::SessionMemory ToProto(const engine::SessionMemory& memory, std::string_view caller) {
  const bool own = memory.caller == caller;
  v1::SessionMemory out;
  out.set_session_id(own ? memory.key : Handle(memory.id));
  out.set_own(own);
  out.set_label(memory.label);
  out.set_ephemeral(memory.ephemeral);
  out.set_turn(memory.turn);
  out.set_tokens(memory.tokens);
  out.set_used_bytes(static_cast<uint64_t>(memory.used_bytes));
  out.set_private_blocks(static_cast<uint32_t>(memory.private_blocks));
  out.set_shared_blocks(static_cast<uint32_t>(memory.shared_blocks));
  out.set_charged_bytes(static_cast<uint64_t>(memory.charged_bytes));
  out.set_slack_bytes(static_cast<uint64_t>(memory.slack_bytes));
  out.set_peak_bytes(static_cast<uint64_t>(memory.peak_bytes));
  out.set_guaranteed_bytes(static_cast<uint64_t>(memory.guaranteed_bytes));
  out.set_quota_bytes(static_cast<uint64_t>(memory.quota_bytes));
  out.set_evictions(memory.evictions);
  out.set_recomputed_tokens(memory.recomputed_tokens);
  out.set_tokens_per_s(memory.tokens_per_s);
  out.set_state(ToProto(memory.state));
  *out.mutable_last_active() = ToTimestamp(memory.last_active);
  out.set_generated_tokens(memory.generated_tokens);
  out.set_split_bytes(static_cast<uint64_t>(memory.split_bytes));
  return out;
}

v1::MemorySnapshot ToProto(const engine::Snapshot& snapshot, std::string_view caller) {
  v1::MemorySnapshot out;
  *out.mutable_pool() = ToPool(snapshot);
  for (const engine::SessionMemory& memory : snapshot.sessions) {
    *out.add_sessions() = ToProto(memory, caller);
  }
  *out.mutable_load() = ToLoad(snapshot);
  return out;
}

v1::GetModelResponse ToModelResponse(const Serving& serving) {
  const model::ModelConfig& config = serving.model->config;
  v1::GetModelResponse out;
  out.set_name(serving.name);
  out.set_architecture(std::string(model::ArchitectureName(config.architecture)));
  out.set_source(serving.model->source);
  out.set_digest(serving.model->digest);
  out.set_backend(serving.backend.name);
  out.set_numerics(serving.backend.numerics);
  out.set_context_length(static_cast<uint32_t>(config.context_length));
  out.set_vocab_size(static_cast<uint32_t>(config.vocab_size));
  out.set_num_layers(static_cast<uint32_t>(config.num_layers));
  out.set_hidden_size(static_cast<uint32_t>(config.hidden_size));
  out.set_num_heads(static_cast<uint32_t>(config.num_heads));
  out.set_num_kv_heads(static_cast<uint32_t>(config.num_kv_heads));
  out.set_weights_bytes(static_cast<uint64_t>(serving.backend.weights_bytes));
  out.set_kv_bytes_per_token(static_cast<uint64_t>(serving.layout.token_bytes()));
  out.set_has_chat_template(serving.chat != nullptr);
  if (serving.chat != nullptr) {
    out.set_chat_family(std::string(FamilyName(serving.chat->family())));
    out.set_default_system(serving.chat->default_system());
  }
  for (const TokenId id : serving.tokenizer->data().end_ids) {
    out.add_end_ids(static_cast<uint32_t>(id));
  }
  out.set_server_version(serving.server_version);
  return out;
}

}  // namespace luna::rpc
