// Which backend computes.
#ifndef LUNA_SERVER_BACKEND_CHOICE_H_
#define LUNA_SERVER_BACKEND_CHOICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "server/options.h"

namespace luna::server {

// What --backend says; "auto" is the GPU, if there is one that takes the model and what is asked
// for, else the CPU, and the log says why. Statuses of backend::MakeBackend; INVALID_ARGUMENT also
// for a --cpu that this machine does not have.
absl::StatusOr<std::unique_ptr<backend::Backend>> MakeChosenBackend(
    const Options& options, const std::shared_ptr<const model::Model>& model);

}  // namespace luna::server

#endif  // LUNA_SERVER_BACKEND_CHOICE_H_
