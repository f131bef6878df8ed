// One generation as it is asked for: made by an RPC thread, validated there as far as no state is
// needed, moved into the engine, const from then on.
#ifndef LUNA_CORE_ENGINE_REQUEST_H_
#define LUNA_CORE_ENGINE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/sample/overrides.h"
#include "core/sample/params.h"

namespace luna::engine {

// The turn's tokens. History is token ids and never rendered again; only the engine knows how it
// ends.
struct TurnInput {
  std::vector<TokenId> tokens;
  // What begins a conversation without history, where the turn brings its own (a system message).
  // Unset: the session's, and if it has none, EngineOptions::default_opening.
  std::optional<std::vector<TokenId>> opening;
  // As in text::RenderedTurn.
  int system_tokens = 0;
  std::vector<TokenId> after_system;
  // Token ids given by the caller: nothing is put before or between.
  bool raw = false;
};

struct Request {
  std::string caller;       // who asks: the connection's peer, without its port
  std::string request_id;   // may be empty; unique among the caller's live requests otherwise
  std::string session_key;  // empty: a one-off, in an ephemeral session
  std::optional<uint32_t> expected_turn;
  TurnInput input;
  sample::SamplingOverrides sampling;
  int num_logprobs = -1;  // as in SamplingParams
  sample::StopParams stopping;
  int priority = 0;                           // higher first, among the caller's own
  absl::Time arrival = absl::InfinitePast();  // for Usage; InfinitePast: when the engine sees it
  absl::Time deadline = absl::InfiniteFuture();
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_REQUEST_H_
