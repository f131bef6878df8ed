// The one list of the backends that this build has.
#ifndef LUNA_CORE_BACKEND_FACTORY_FACTORY_H_
#define LUNA_CORE_BACKEND_FACTORY_FACTORY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backend/backend.h"

namespace luna::backend {

// "reference", "cpu" or "cuda". INVALID_ARGUMENT for another name, code path or format, with what
// there is; NOT_FOUND if there is no device for it, UNAVAILABLE if it cannot be used; UNIMPLEMENTED
// for a model that it does not take; RESOURCE_EXHAUSTED if the weights do not fit into memory or
// the system has no thread left.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(std::string_view name,
                                                     std::shared_ptr<const model::Model> model,
                                                     const BackendOptions& options);

// Names for BackendOptions::code_path that the backend can run on this machine, slowest first; none
// where it has no choice.
std::vector<std::string> CodePaths(std::string_view name);

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_FACTORY_FACTORY_H_
