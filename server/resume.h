// Sessions go on after a restart.
#ifndef LUNA_SERVER_RESUME_H_
#define LUNA_SERVER_RESUME_H_

#include "absl/status/status.h"
#include "core/engine/engine.h"
#include "server/state/state_keeper.h"

namespace luna::server {

// Has the engine take every session that the keeper holds under its own id, the most recently
// written first, and waits for it. What cannot go on (damaged, another model's, no place left) is
// logged with the reason and stays where it is. The error is of looking at the directory.
absl::Status ResumeSessions(state::StateKeeper& keeper, engine::Engine& engine);

}  // namespace luna::server

#endif  // LUNA_SERVER_RESUME_H_
