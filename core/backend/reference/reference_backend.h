// The plain, slow, obviously right backend: one thread, one operator after the other, f32.
#ifndef LUNA_CORE_BACKEND_REFERENCE_REFERENCE_BACKEND_H_
#define LUNA_CORE_BACKEND_REFERENCE_REFERENCE_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "core/model/model.h"

namespace luna::backend {

// What every other backend is compared with. num_threads has no meaning here; a code path other
// than the empty one is refused. The weights are widened to f32 once.
absl::StatusOr<std::unique_ptr<Backend>> MakeReferenceBackend(
    std::shared_ptr<const model::Model> model, const BackendOptions& options);

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_REFERENCE_REFERENCE_BACKEND_H_
