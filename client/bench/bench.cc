#include "client/bench/bench.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/client.h"
#include "client/load/async_call.h"
#include "client/load/event_loop.h"
#include "core/base/status_macros.h"

namespace luna::bench {
namespace {

using Stream = load::ServerStream<v1::GenerateEvent>;

// One client's request of one round.
struct Call {
  v1::GenerateRequest request;
  Outcome outcome;
};

v1::GenerateRequest MakeRequest(const Options& options, const v1::GetModelResponse& model,
                                int round, int client) {
  v1::GenerateRequest request;
  const auto ids = RandomPrompt(model, options.prompt_tokens, options.seed, round, client);
  request.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(static_cast<uint32_t>(options.max_tokens));
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

absl::Status Check(const Options& options, const v1::GetModelResponse& model) {
  const int64_t needed = int64_t{options.prompt_tokens} + options.max_tokens;
  if (needed > model.context_length()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--prompt-tokens ", options.prompt_tokens, " and --max-tokens ", options.max_tokens,
        " make ", needed, "; the context of ", model.name(), " is ", model.context_length()));
  }
  return absl::OkStatus();
}

class Runner {
 public:
  Runner(const Options& options, v1::GetModelResponse model)
      : options_(options), model_(std::move(model)) {
    for (int i = 0; i < options.connections; ++i) {
      stubs_.push_back(v1::InferenceService::NewStub(
          client::Connect({options.server, /*own_connection=*/options.connections > 1})));
    }
  }

  // All clients of the round start together: their requests are made before, and the loop's thread
  // sends one after the other without waiting.
  std::vector<Outcome> RunRound(int round) {
    std::vector<Call> calls(static_cast<size_t>(options_.clients));
    for (size_t i = 0; i < calls.size(); ++i) {
      calls[i].request = MakeRequest(options_, model_, round, static_cast<int>(i));
    }
    load::EventLoop loop;
    for (size_t i = 0; i < calls.size(); ++i) Start(loop, *stubs_[i % stubs_.size()], calls[i]);
    loop.Run();
    std::vector<Outcome> outcomes;
    for (Call& call : calls) outcomes.push_back(std::move(call.outcome));
    return outcomes;
  }

 private:
  static void Start(load::EventLoop& loop, v1::InferenceService::Stub& stub, Call& call) {
    call.outcome.timing.Start(absl::Now());
    Stream::Start(
        loop,
        [&stub, &call](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
          return stub.PrepareAsyncGenerate(context, call.request, queue);
        },
        [&call](const v1::GenerateEvent& event) {
          if (event.has_delta() && event.delta().token_ids_size() > 0) {
            call.outcome.timing.Arrive(absl::Now(),
                                       static_cast<uint32_t>(event.delta().token_ids_size()));
          }
          if (event.has_finished()) call.outcome.finished = true;
          if (event.has_error()) call.outcome.status = absl::InternalError(event.error().message());
          return absl::ZeroDuration();
        },
        [&call](const absl::Status& status) { call.outcome.status.Update(status); });
  }

  const Options& options_;
  v1::GetModelResponse model_;
  std::vector<std::unique_ptr<v1::InferenceService::Stub>> stubs_;
};

}  // namespace

std::vector<uint32_t> RandomPrompt(const v1::GetModelResponse& model, int num_tokens, uint64_t seed,
                                   int round, int client) {
  const uint32_t margin = model.vocab_size() / 16;
  const uint32_t choices = std::max(1u, model.vocab_size() - 2 * margin);
  std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                         static_cast<uint32_t>(round), static_cast<uint32_t>(client)};
  std::mt19937_64 random(sequence);
  std::vector<uint32_t> ids;
  while (ids.size() < static_cast<size_t>(num_tokens)) {
    // The remainder and not a distribution of the library, whose values differ between libraries.
    const uint32_t id = margin + static_cast<uint32_t>(random() % choices);
    const bool end = std::count(model.end_ids().begin(), model.end_ids().end(), id) > 0;
    if (!end || choices <= static_cast<uint32_t>(model.end_ids_size())) ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<Result> Run(const Options& options,
                           const std::function<void(int round, const Round&)>& on_round) {
  client::Client client(client::Connect({options.server}));
  LUNA_ASSIGN_OR_RETURN(const v1::GetModelResponse model, client.GetModel());
  LUNA_RETURN_IF_ERROR(Check(options, model));
  Runner runner(options, model);
  Tally tally(options.max_tokens);
  for (int round = -options.warmup; round < options.rounds; ++round) {
    const Round measured = tally.Add(runner.RunRound(round), /*counts=*/round >= 0);
    if (on_round) on_round(round, measured);
  }
  Result result = std::move(tally).Finish();
  result.model = model;
  return result;
}

}  // namespace luna::bench
