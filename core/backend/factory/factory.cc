#include "core/backend/factory/factory.h"

#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/reference/reference_backend.h"
#include "core/base/absl_view.h"

namespace luna::backend {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(std::string_view name,
                                                     std::shared_ptr<const model::Model> model,
                                                     const BackendOptions& options) {
  try {
    if (name == "reference") return MakeReferenceBackend(std::move(model), options);
    if (name == "cpu") return MakeCpuBackend(std::move(model), options);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the backend's buffers do not fit into memory");
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start the backend's threads: ", error.what()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backend '", AbslView(name), "' is not one of: reference, cpu"));
}

std::vector<std::string> CodePaths(std::string_view name) {
  return name == "cpu" ? CpuCodePaths() : std::vector<std::string>{"reference"};
}

}  // namespace luna::backend
