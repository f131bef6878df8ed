// The fake server's answers: "w1 w2 w3 ...", as long as the request and the context allow.
#ifndef LUNA_TESTS_CLIENT_FAKE_INFERENCE_H_
#define LUNA_TESTS_CLIENT_FAKE_INFERENCE_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "luna/v1/inference.grpc.pb.h"
#include "tests/client/fake/state.h"

namespace luna::fake {

inline uint32_t PromptTokens(const v1::GenerateRequest& request) {
  if (request.has_token_ids()) return static_cast<uint32_t>(request.token_ids().ids_size());
  return static_cast<uint32_t>((request.text().size() + 3) / 4);
}

class Inference final : public v1::InferenceService::Service {
 public:
  explicit Inference(State& state) : state_(state) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateEvent>* writer) override {
    std::vector<Answer> answers;
    if (const grpc::Status status = Accept(*request, answers); !status.ok()) return status;
    uint64_t seq = 0;
    const auto write = [&seq, writer](v1::GenerateEvent event) {
      event.set_seq(seq++);
      return writer->Write(event);
    };
    bool live = true;
    for (const Answer& answer : answers) live = live && write(Accepted(answer));
    for (size_t ended = 0; live && ended < answers.size();) {
      for (Answer& answer : answers) {
        if (answer.ended || !live) continue;
        live = write(Next(answer));
        if (answer.ended) ++ended;
      }
    }
    if (live && !context->IsCancelled()) return grpc::Status::OK;
    const std::lock_guard lock(state_.mutex);
    ++state_.seen.cancelled_streams;
    return grpc::Status::CANCELLED;
  }

  grpc::Status GenerateUnary(grpc::ServerContext*, const v1::GenerateRequest* request,
                             v1::GenerateResponse* response) override {
    std::vector<Answer> answers;
    if (const grpc::Status status = Accept(*request, answers); !status.ok()) return status;
    for (Answer& answer : answers) {
      Join(answer, answer.index == 0 ? *response : *response->add_others());
    }
    return grpc::Status::OK;
  }

  grpc::Status Abort(grpc::ServerContext*, const v1::AbortRequest* request,
                     v1::AbortResponse* response) override {
    const std::lock_guard lock(state_.mutex);
    state_.seen.aborts.push_back(*request);
    state_.aborted.insert(request->generation_id());
    response->set_was_live(true);
    return grpc::Status::OK;
  }

  grpc::Status Tokenize(grpc::ServerContext*, const v1::TokenizeRequest* request,
                        v1::TokenizeResponse* response) override {
    for (size_t i = 0; i < (request->text().size() + 3) / 4; ++i) response->add_ids(7);
    return grpc::Status::OK;
  }

  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*,
                        v1::GetModelResponse* response) override {
    response->set_name("fake-model");
    response->set_backend("none");
    response->set_context_length(state_.behaviour.context_length);
    response->set_vocab_size(1000);
    response->set_has_chat_template(state_.behaviour.chat);
    response->add_end_ids(500);
    return grpc::Status::OK;
  }

 private:
  struct Answer {
    uint32_t index = 0;
    std::string generation_id;
    std::string session_id;
    uint64_t seed = 0;
    uint32_t prompt_tokens = 0;
    uint32_t tokens = 0;
    uint32_t done = 0;
    v1::Limit limit = v1::LIMIT_UNSPECIFIED;
    bool logprobs = false;
    bool fails = false;
    bool ended = false;
  };

  grpc::Status Accept(const v1::GenerateRequest& request, std::vector<Answer>& answers) {
    const std::lock_guard lock(state_.mutex);
    state_.seen.generates.push_back(request);
    grpc::Status refusal;
    if (State::PopRefusal(state_.behaviour.refusals, refusal)) return refusal;
    const uint32_t n = request.has_n() ? request.n() : 1;
    if (n < 1 || n > 64) return BadRequest("n", absl::StrCat(n, " is not in [1, 64]"));
    if (n > 1 && !request.session_id().empty()) {
      return BadRequest("n", absl::StrCat(n, "; a session takes 1"));
    }
    for (uint32_t i = 0; i < n; ++i) {
      answers.emplace_back();
      answers.back().index = i;
      const grpc::Status status = AcceptOne(request, answers.back());
      if (!status.ok()) return status;
    }
    return grpc::Status::OK;
  }

  grpc::Status AcceptOne(const v1::GenerateRequest& request, Answer& answer) {
    uint32_t history = 0;
    if (!request.session_id().empty()) {
      const auto found = state_.sessions.find(request.session_id());
      if (found == state_.sessions.end()) return UnknownSession(request.session_id());
      history = found->second.tokens();
    }
    answer.prompt_tokens = history + PromptTokens(request);
    const uint32_t context = state_.behaviour.context_length;
    if (answer.prompt_tokens > context) {
      return {grpc::StatusCode::OUT_OF_RANGE,
              absl::StrCat("history and turn have ", answer.prompt_tokens,
                           " tokens; the context is ", context)};
    }
    answer.generation_id = absl::StrCat("g", state_.next_id++);
    answer.session_id = request.session_id();
    answer.seed = (request.sampling().has_seed() ? request.sampling().seed() : 4711) + answer.index;
    answer.logprobs = request.response_options().has_logprobs();
    answer.tokens =
        state_.behaviour.answer_tokens - answer.index * state_.behaviour.fewer_tokens_each;
    const auto& failing = state_.behaviour.failing;
    answer.fails = std::find(failing.begin(), failing.end(), answer.index) != failing.end();
    const bool to_the_end = request.stopping().ignore_eos();
    const auto cut = [&answer, to_the_end](uint32_t most, v1::Limit limit) {
      if (!to_the_end && most >= answer.tokens) return;
      answer.tokens = most;
      answer.limit = limit;
    };
    if (request.stopping().has_max_tokens()) {
      cut(request.stopping().max_tokens(), v1::LIMIT_MAX_TOKENS);
    }
    if (context - answer.prompt_tokens < answer.tokens) {
      cut(context - answer.prompt_tokens, v1::LIMIT_CONTEXT);
    }
    return grpc::Status::OK;
  }

  // What an answer that has not ended says next.
  v1::GenerateEvent Next(Answer& answer) {
    if (answer.fails && answer.done > 0) return Fail(answer);
    const bool more = state_.behaviour.endless || answer.done < answer.tokens;
    if (!more || Aborted(answer)) return Finish(answer);
    const uint32_t count = state_.behaviour.endless ? 1
                                                    : std::min(state_.behaviour.tokens_per_message,
                                                               answer.tokens - answer.done);
    return Delta(answer, count);
  }

  void Join(Answer& answer, v1::GenerateResponse& response) {
    response.set_seed(answer.seed);
    response.set_generation_id(answer.generation_id);
    while (!answer.ended) {
      const v1::GenerateEvent event = Next(answer);
      response.mutable_text()->append(event.delta().text());
      response.mutable_token_ids()->MergeFrom(event.delta().token_ids());
      if (event.has_finished()) *response.mutable_finished() = event.finished();
    }
  }

  static v1::GenerateEvent EventOf(const Answer& answer) {
    v1::GenerateEvent event;
    event.set_index(answer.index);
    return event;
  }

  static v1::GenerateEvent Accepted(const Answer& answer) {
    v1::GenerateEvent event = EventOf(answer);
    event.mutable_accepted()->set_generation_id(answer.generation_id);
    event.mutable_accepted()->set_seed(answer.seed);
    return event;
  }

  static v1::GenerateEvent Fail(Answer& answer) {
    v1::GenerateEvent event = EventOf(answer);
    event.mutable_error()->set_code(static_cast<int>(grpc::StatusCode::INTERNAL));
    event.mutable_error()->set_message("the step failed");
    answer.ended = true;
    return event;
  }

  static v1::GenerateEvent Delta(Answer& answer, uint32_t count) {
    v1::GenerateEvent event = EventOf(answer);
    v1::Delta* const delta = event.mutable_delta();
    const std::string mark = answer.index == 0 ? "" : absl::StrCat(answer.index, ":");
    const uint32_t first = std::exchange(answer.done, answer.done + count);
    for (uint32_t i = first + 1; i <= first + count; ++i) {
      delta->mutable_text()->append(absl::StrCat(mark, "w", i, " "));
      delta->add_token_ids(100 + i);
      if (!answer.logprobs) continue;
      v1::TokenLogprobs* const logprobs = delta->add_logprobs();
      logprobs->set_token_id(100 + i);
      logprobs->set_logprob(-0.5f);
    }
    return event;
  }

  v1::GenerateEvent Finish(Answer& answer) {
    const std::lock_guard lock(state_.mutex);
    v1::GenerateEvent event = EventOf(answer);
    answer.ended = true;
    v1::Finished* const finished = event.mutable_finished();
    if (state_.aborted.count(answer.generation_id) > 0) {
      finished->set_reason(v1::FINISH_REASON_CANCELLED);
    } else if (answer.limit != v1::LIMIT_UNSPECIFIED) {
      finished->set_reason(v1::FINISH_REASON_LENGTH);
      finished->set_limit(answer.limit);
    } else {
      finished->set_reason(v1::FINISH_REASON_STOP);
      finished->set_stop_id(500);
    }
    finished->mutable_usage()->set_prompt_tokens(answer.prompt_tokens);
    finished->mutable_usage()->set_completion_tokens(answer.done);
    const auto session = state_.sessions.find(answer.session_id);
    if (session != state_.sessions.end()) {
      finished->set_turn(state_.Commit(session->second, answer.prompt_tokens + answer.done));
    }
    return event;
  }

  bool Aborted(const Answer& answer) {
    const std::lock_guard lock(state_.mutex);
    return state_.aborted.count(answer.generation_id) > 0;
  }

  State& state_;
};

}  // namespace luna::fake

#endif  // LUNA_TESTS_CLIENT_FAKE_INFERENCE_H_
