// The default backend: packed weights, read once a step for the whole batch, on all cores.
#ifndef LUNA_CORE_BACKEND_CPU_CPU_BACKEND_H_
#define LUNA_CORE_BACKEND_CPU_CPU_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "core/model/model.h"

namespace luna::backend {

// Weights are packed here, by all threads. RESOURCE_EXHAUSTED if they do not fit
// into memory; INVALID_ARGUMENT for a code path that this machine does not have.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(std::shared_ptr<const model::Model> model,
                                                        const BackendOptions& options);

// Names for BackendOptions::code_path that this machine can run, slowest first: "portable", "avx2",
// "avx512", "avx512vnni" (with BF16).
std::vector<std::string> CpuCodePaths();

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_CPU_CPU_BACKEND_H_
