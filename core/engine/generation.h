// One accepted request while it lives.
#ifndef LUNA_CORE_ENGINE_GENERATION_H_
#define LUNA_CORE_ENGINE_GENERATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "core/engine/session.h"
#include "core/engine/token_stream.h"
#include "core/engine/turn.h"
#include "core/sched/sequence.h"

namespace luna::engine {

// Engine thread only. The stream is shared with its reader.
struct Generation {
  SequenceId number;  // in the order of submission
  std::string id;     // what the caller knows it by
  std::string caller;
  std::string request_id;
  Session* session = nullptr;
  std::shared_ptr<TokenStream> stream;
  TurnDraft draft;
  Limit limit = Limit::kMaxTokens;  // what ends it by length
  absl::Time arrival, deadline;
  absl::Time first_step = absl::InfiniteFuture(), first_token = absl::InfiniteFuture();
  int64_t peak_blocks = 0;

  // Unset where there is no token to sample.
  std::optional<sched::Sequence> sequence;
  bool scheduled = false;  // the scheduler has it
};

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_GENERATION_H_
