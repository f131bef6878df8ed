// May this request begin, and how long may it become?
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "core/engine/engine_impl.h"
#include "core/engine/random_key.h"
#include "core/sample/random.h"

namespace luna::engine {
namespace {

constexpr absl::Duration kQueueRetryAfter = absl::Seconds(1);

// The mailbox of a reader who is slower than this only costs a reallocation.
constexpr int64_t kMailboxTokens = 1024;
constexpr int64_t kBytesPerToken = 8;

// Leaves 53 bits: what reads JSON numbers as doubles, as JavaScript does, gives a seed back as it
// was told.
constexpr int kSeedShift = 11;

// A conversation that drops its oldest turns keeps a part of the context free for the answer.
constexpr int64_t kAnswerShare = 4;

}  // namespace

void Engine::Impl::Submit(Request request, std::shared_ptr<TokenStream> stream) {
  SubmitMany(std::move(request), {std::move(stream)});
}

void Engine::Impl::SubmitMany(Request request,
                              const std::vector<std::shared_ptr<TokenStream>>& streams) {
  if (request.arrival == absl::InfinitePast()) request.arrival = now_;
  Continuation continuation{.count = streams.size()};
  for (std::shared_ptr<TokenStream> stream : streams) {
    const absl::Status status = TrySubmit(request, stream, continuation);
    if (!status.ok()) {
      // The first one's refusal is everybody's.
      for (size_t i = continuation.index; i < streams.size(); ++i) streams[i]->Reject(status);
      break;
    }
    ++continuation.index;
  }
  published_ = true;
}

absl::Status Engine::Impl::TrySubmit(const Request& request, std::shared_ptr<TokenStream>& stream,
                                     Continuation& continuation) {
  if (continuation.index == 0) {
    LUNA_RETURN_IF_ERROR(CheckMayBegin(request));
    LUNA_RETURN_IF_ERROR(CheckTokens(request));
  }
  LUNA_ASSIGN_OR_RETURN(Session * session, SessionFor(request, continuation));
  const absl::Status status = Begin(request, *session, stream, continuation);
  if (!status.ok() && session->ephemeral) CloseSession(*session);
  return status;
}

absl::Status Engine::Impl::CheckMayBegin(const Request& request) const {
  if (draining_) return absl::UnavailableError("the server is draining; it takes nothing new");
  if (request.deadline <= now_) {
    return absl::DeadlineExceededError("the deadline had passed when the request arrived");
  }
  if (!request.request_id.empty() &&
      request_ids_.contains(std::make_pair(request.caller, request.request_id))) {
    return WithField(absl::AlreadyExistsError(absl::StrCat("request_id '", request.request_id,
                                                           "' is that of a live request")),
                     "request_id");
  }
  return absl::OkStatus();
}

absl::Status Engine::Impl::CheckIds(const std::vector<TokenId>& tokens, const char* field) const {
  const int vocab_size = backend_->info().vocab_size;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
    return InvalidField(
        absl::StrCat(field, "[", i, "]"),
        absl::StrCat("token id ", tokens[i], " is outside the vocabulary of ", vocab_size));
  }
  return absl::OkStatus();
}

absl::Status Engine::Impl::CheckTokens(const Request& request) const {
  LUNA_RETURN_IF_ERROR(CheckIds(request.input.tokens, "token_ids"));
  if (request.input.opening.has_value()) {
    LUNA_RETURN_IF_ERROR(CheckIds(*request.input.opening, "opening"));
  }
  LUNA_RETURN_IF_ERROR(CheckIds(request.input.after_system, "after_system"));
  return sample::Validate(request.stopping, backend_->info().vocab_size);
}

absl::StatusOr<Session*> Engine::Impl::SessionFor(const Request& request,
                                                  const Continuation& continuation) {
  if (request.session_key.empty()) {
    if (request.expected_turn.value_or(0) != 0) {
      return absl::AbortedError(absl::StrCat("expected_turn is ", *request.expected_turn,
                                             "; a request without a session is turn 0"));
    }
    Session* session =
        sessions_.Create({.caller = request.caller,
                          .scope = continuation.scope.value_or(ScopeOf(request.caller)),
                          .ephemeral = true,
                          .quota_blocks = default_quota_blocks_,
                          .now = now_});
    session->label = request.request_id;
    scheduler_.AddCache(&session->cache);
    return session;
  }
  LUNA_ASSIGN_OR_RETURN(Session * session, FindSession(request.session_key));
  if (session->live != nullptr) {
    return absl::AbortedError(
        "the session has a live generation; it takes one at a time: wait for its end or abort it");
  }
  if (request.expected_turn.has_value() && *request.expected_turn != session->turn()) {
    return absl::AbortedError(absl::StrCat("expected_turn is ", *request.expected_turn,
                                           "; the session's turn is ", session->turn()));
  }
  return session;
}

// Nothing of the session's history changes before the turn commits: a refusal costs at most cache.
absl::Status Engine::Impl::Begin(const Request& request, Session& session,
                                 std::shared_ptr<TokenStream>& stream, Continuation& continuation) {
  const sample::SamplingOverrides overrides =
      sample::Merge(request.sampling, session.default_sampling);
  sample::SamplingParams sampling = sample::Resolve(overrides);
  sampling.num_logprobs = request.num_logprobs;
  LUNA_RETURN_IF_ERROR(sample::Validate(sampling, backend_->info().vocab_size));

  const uint64_t caller = std::hash<std::string>()(request.caller);
  LUNA_RETURN_IF_ERROR(CheckLine(caller, continuation.count - continuation.index));
  const TokenLimits limits = LimitsFor(session);
  LUNA_ASSIGN_OR_RETURN(TurnDraft draft, DraftTurn(session, request.input,
                                                   {.tokenizer = tokenizer_,
                                                    .markers = &options_.markers,
                                                    .default_opening = &options_.default_opening},
                                                   RoomForPrompt(limits, request.stopping)));
  const int64_t prompt_tokens = static_cast<int64_t>(draft.prompt.size());
  LUNA_RETURN_IF_ERROR(CheckFits(limits, prompt_tokens, draft.begin));
  const AnswerLimit answer = LimitAnswer(limits, prompt_tokens, request.stopping.max_tokens);
  sample::StopParams stopping = request.stopping;
  stopping.max_tokens = answer.max_tokens;
  PrepareCache(session, draft);

  std::unique_ptr<Generation> generation =
      NewGeneration(request, session, std::move(draft), answer.limit, stream);
  if (continuation.index > 0) generation->request_id.clear();  // the first one has it
  const uint64_t seed = SeedFor(session, overrides, continuation);
  uint32_t queue_position = 0;
  if (answer.max_tokens > 0) {
    generation->sequence.emplace(sched::SequenceSpec{.id = generation->number,
                                                     .caller = caller,
                                                     .priority = request.priority,
                                                     .prompt = generation->draft.prompt,
                                                     .sampling = sampling,
                                                     .stopping = stopping,
                                                     .seed = seed},
                                 &session.cache, tokenizer_);
    LUNA_RETURN_IF_ERROR(StandInLine(*generation));
    queue_position = static_cast<uint32_t>(scheduler_.QueuePosition(&*generation->sequence));
  }

  const int64_t mailbox = std::min(answer.max_tokens, kMailboxTokens);
  stream->Reserve(mailbox, mailbox * kBytesPerToken);
  stream->Accept({
      .generation_id = generation->id,
      .queue_position = queue_position,
      .sampling = std::move(sampling),
      .stopping = std::move(stopping),
      .seed = seed,
      .turn = session.turn(),
  });
  Generation& live = Enlist(std::move(generation));
  if (!live.sequence.has_value()) {
    End(live, {.reason = FinishReason::kLength, .limit = answer.limit}, Turn::kCommit);
  }
  return absl::OkStatus();
}

std::unique_ptr<Generation> Engine::Impl::NewGeneration(const Request& request, Session& session,
                                                        TurnDraft draft, Limit limit,
                                                        std::shared_ptr<TokenStream> stream) {
  auto generation = std::make_unique<Generation>();
  generation->number = SequenceId(++last_sequence_);
  generation->id = RandomKey();
  generation->caller = request.caller;
  generation->request_id = request.request_id;
  generation->session = &session;
  generation->stream = std::move(stream);
  generation->draft = std::move(draft);
  generation->limit = limit;
  generation->arrival = request.arrival;
  generation->deadline = request.deadline;
  return generation;
}

// From here on it lives, and End() is the only way out.
Generation& Engine::Impl::Enlist(std::unique_ptr<Generation> generation) {
  Generation& live = *generation;
  live.session->live = &live;
  live.session->last_active = now_;
  live.session->answer_tokens = 0;
  by_id_.emplace(live.id, &live);
  if (!live.request_id.empty()) request_ids_.emplace(live.caller, live.request_id);
  live_.emplace(live.number, std::move(generation));
  return live;
}

// How long a prompt may be before a conversation drops its oldest turns: as much of the answer as
// was asked for stays free, but at most a part of what there is.
int64_t Engine::Impl::RoomForPrompt(const TokenLimits& limits,
                                    const sample::StopParams& stopping) const {
  const int64_t share = std::max<int64_t>(1, limits.least() / kAnswerShare);
  const int64_t answer = stopping.max_tokens < 0 ? share : std::min(stopping.max_tokens, share);
  return limits.least() - answer;
}

absl::Status Engine::Impl::QueueFull(size_t waiting) const {
  return WithRetryAfter(absl::ResourceExhaustedError(
                            absl::StrCat("the queue is full: ", waiting,
                                         " generations wait; the limit is ", options_.queue_limit)),
                        kQueueRetryAfter);
}

// May be put off to StandInLine only where nobody waits: then it may run at once. Otherwise a
// refusal comes before any work is done, since a flood must cost little.
absl::Status Engine::Impl::CheckLine(uint64_t caller, size_t count) const {
  const size_t waiting = scheduler_.waiting().size();
  if ((waiting == 0 && count == 1) ||
      scheduler_.HasRoomInLine(caller, count, options_.queue_limit)) {
    return absl::OkStatus();
  }
  return QueueFull(waiting);
}

absl::Status Engine::Impl::StandInLine(Generation& generation) {
  sched::Sequence& sequence = *generation.sequence;
  scheduler_.Enqueue(&sequence);
  if (!sequence.schedule.running && options_.queue_limit == 0) {
    scheduler_.Remove(&sequence);
    DiscardTurn(*generation.session, generation.draft);
    return QueueFull(0);
  }
  generation.scheduled = true;
  return absl::OkStatus();
}

// A session's seeds are its own, so that they are the same after a restart.
uint64_t Engine::Impl::SeedFor(Session& session, const sample::SamplingOverrides& overrides,
                               Continuation& continuation) {
  if (continuation.index > 0) {
    return sample::DeriveSeed(continuation.seed, static_cast<uint32_t>(continuation.index)) >>
           kSeedShift;
  }
  uint64_t seed = 0;
  if (overrides.seed.has_value()) {
    seed = *overrides.seed;
  } else if (session.ephemeral) {
    seed = NextSeed();
  } else {
    seed = sample::DeriveSeed(session.seeds.base, static_cast<uint32_t>(++session.seeds.drawn)) >>
           kSeedShift;
  }
  continuation.scope = session.scope;
  continuation.seed = seed;
  return seed;
}

// The n-th seed that was asked for without one: with the same --seed and the same order of requests
// the same, whatever else happened.
uint64_t Engine::Impl::NextSeed() {
  const uint64_t count = ++seeds_given_;
  const uint64_t high = sample::DeriveSeed(options_.seed, static_cast<uint32_t>(count >> 32));
  return sample::DeriveSeed(high, static_cast<uint32_t>(count)) >> kSeedShift;
}

}  // namespace luna::engine
