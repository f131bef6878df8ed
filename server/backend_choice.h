// Which backend computes.
#ifndef LUNA_SERVER_BACKEND_CHOICE_H_
#define LUNA_SERVER_BACKEND_CHOICE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "server/options.h"

namespace luna::server {

// What --backend says, prepared: with its pool. "auto" is the GPU, if there is one that can be
// prepared and has what is asked for, else the CPU, and the log says why. Statuses of
// backend::MakeBackend and of `prepare`; INVALID_ARGUMENT also for a --cpu that this machine does
// not have.
absl::StatusOr<std::unique_ptr<backend::Backend>> MakeChosenBackend(
    const Options& options, const std::shared_ptr<const model::Model>& model,
    const std::function<absl::Status(backend::Backend&)>& prepare);

}  // namespace luna::server

#endif  // LUNA_SERVER_BACKEND_CHOICE_H_
