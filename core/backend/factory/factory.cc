#include "core/backend/factory/factory.h"

#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cuda/cuda_backend.h"
#include "core/backend/cuda/runtime/cuda_device.h"
#include "core/backend/reference/reference_backend.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::backend {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(std::string_view name,
                                                     std::shared_ptr<const model::Model> model,
                                                     const BackendOptions& options) {
  try {
    if (name == "reference") return MakeReferenceBackend(std::move(model), options);
    if (name == "cpu") return MakeCpuBackend(std::move(model), options);
    if (name == "cuda") {
      LUNA_ASSIGN_OR_RETURN(auto device, cuda::OpenCudaDevice());
      return MakeCudaBackend(std::move(model), options, std::move(device), cuda::CompiledKernels());
    }
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the backend's buffers do not fit into memory");
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start the backend's threads: ", error.what()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backend '", AbslView(name), "' is not one of: reference, cpu, cuda"));
}

std::vector<std::string> CodePaths(std::string_view name) {
  if (name == "cpu") return CpuCodePaths();
  if (name == "cuda") return {};
  return {"reference"};
}

}  // namespace luna::backend
