// How a generation ends: by itself, by its caller, by its deadline, by a fault.
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/engine/engine_impl.h"

namespace luna::engine {
namespace {

double Millis(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

// Zero where it never happened.
double MillisUntil(absl::Time from, absl::Time to) {
  return to == absl::InfiniteFuture() ? 0.0 : Millis(to - from);
}

}  // namespace

bool Engine::Impl::Abort(const std::string& generation_id, bool keep_partial) {
  const auto it = by_id_.find(generation_id);
  if (it == by_id_.end()) return false;
  End(*it->second, {.reason = FinishReason::kCancelled},
      keep_partial ? Turn::kCommit : Turn::kDiscard);
  return true;
}

// The scheduler has let go of it already.
void Engine::Impl::EndByItself(Generation& generation, const sched::Ending& ending) {
  const sched::Sequence& sequence = *generation.sequence;
  generation.scheduled = false;
  Finished finished;
  switch (ending.kind) {
    case sched::Ending::Kind::kStopId:
      finished.stop_id = sequence.tokens().back();
      break;
    case sched::Ending::Kind::kStopString:
      finished.stop = sequence.stopping().stop[ending.stop_string];
      break;
    case sched::Ending::Kind::kMaxTokens:
      finished.reason = FinishReason::kLength;
      finished.limit = generation.limit;
      break;
    case sched::Ending::Kind::kError:
      return EndWithError(generation, ending.error);
    case sched::Ending::Kind::kNone:
      LUNA_CHECK(false) << "sequence " << sequence.id() << " has not ended";
  }
  End(generation, std::move(finished), Turn::kCommit);
}

void Engine::Impl::EndWithError(Generation& generation, absl::Status status) {
  End(generation, {.reason = FinishReason::kError, .error = std::move(status)}, Turn::kDiscard);
}

void Engine::Impl::End(Generation& generation, Finished finished, Turn turn) {
  Session& session = *generation.session;
  if (generation.scheduled) scheduler_.Remove(&*generation.sequence);
  std::string tail;
  if (finished.reason != FinishReason::kStop && finished.reason != FinishReason::kLength &&
      generation.sequence.has_value()) {
    // It was stopped from outside, perhaps in the middle of a character.
    generation.sequence->Flush();
    tail = generation.sequence->fresh_text();
  }
  // What a faulty step left there is not to be trusted.
  if (finished.reason == FinishReason::kError) session.cache.kv.Truncate(0);
  if (turn == Turn::kDiscard) {
    DiscardTurn(session, generation.draft);
  } else if (generation.sequence.has_value()) {
    CommitTurn(session, generation.draft, generation.sequence->tokens(),
               generation.sequence->answer());
  } else {
    CommitTurn(session, generation.draft, generation.draft.prompt, "");
  }
  session.live = nullptr;
  session.last_active = now_;

  NoteChanged(session);

  finished.usage = UsageOf(generation);
  finished.turn = session.turn();
  generation.stream->Finish(tail, std::move(finished));
  published_ = true;
  ++finished_;

  if (session.ephemeral) CloseSession(session);
  if (!generation.request_id.empty()) {
    request_ids_.erase(std::make_pair(generation.caller, generation.request_id));
  }
  by_id_.erase(generation.id);
  live_.erase(SequenceId(generation.number));
}

Usage Engine::Impl::UsageOf(const Generation& generation) const {
  Usage usage{
      .prompt_tokens = static_cast<uint32_t>(generation.draft.prompt.size()),
      .queue_ms = MillisUntil(generation.arrival, generation.first_step),
      .ttft_ms = MillisUntil(generation.arrival, generation.first_token),
      .total_ms = Millis(now_ - generation.arrival),
      .peak_blocks = static_cast<uint32_t>(generation.peak_blocks),
  };
  if (generation.sequence.has_value()) {
    const sched::Sequence& sequence = *generation.sequence;
    usage.cached_tokens = static_cast<uint32_t>(sequence.schedule.cached_tokens);
    usage.completion_tokens = static_cast<uint32_t>(sequence.output_tokens());
    usage.preemptions = sequence.schedule.preemptions;
  }
  return usage;
}

void Engine::Impl::CloseSession(Session& session) {
  LUNA_CHECK(session.live == nullptr);
  scheduler_.RemoveCache(&session.cache);
  sessions_.Erase(&session);
}

}  // namespace luna::engine
