#include "server/backend_choice.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/backend/factory/factory.h"
#include "core/base/status_macros.h"

namespace luna::server {
namespace {

// A line in the log now and then, where it takes long enough for somebody to wonder.
std::function<void(double)> ProgressLog() {
  constexpr absl::Duration kEvery = absl::Seconds(2);
  return [next = absl::Now() + kEvery](double part) mutable {
    if (absl::Now() < next) return;
    next = absl::Now() + kEvery;
    spdlog::info("packing the weights: {:.0f} % done", 100.0 * part);
  };
}

absl::Status CheckCodePath(const Options& options) {
  if (options.code_path.empty()) return absl::OkStatus();
  const std::vector<std::string> paths =
      backend::CodePaths(options.backend == "auto" ? "cpu" : options.backend);
  if (std::ranges::find(paths, options.code_path) != paths.end()) return absl::OkStatus();
  const std::string flag = absl::StrCat("--cpu: '", options.code_path, "'");
  if (paths.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": the ", options.backend, " backend has no choice of instructions"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " is not one of what this machine has: ", absl::StrJoin(paths, ", ")));
}

// The flag that asks for what only the cpu backend has; empty if none does.
std::string AsksForCpu(const Options& options) {
  if (!options.code_path.empty()) return absl::StrCat("--cpu ", options.code_path);
  if (options.weights == backend::WeightsFormat::kInt4) return "--weights int4";
  if (options.kv_dtype == backend::KvDtype::kInt8) return "--kv-dtype int8";
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<backend::Backend>> MakeChosenBackend(
    const Options& options, const std::shared_ptr<const model::Model>& model,
    const std::function<absl::Status(backend::Backend&)>& prepare) {
  LUNA_RETURN_IF_ERROR(CheckCodePath(options));
  backend::BackendOptions backend_options;
  backend_options.num_threads = options.threads;
  backend_options.weights = options.weights;
  backend_options.kv_dtype = options.kv_dtype;
  backend_options.code_path = options.code_path;
  backend_options.max_batch_tokens = options.max_batch_tokens;
  backend_options.on_progress = ProgressLog();
  const auto make =
      [&](const std::string& name) -> absl::StatusOr<std::unique_ptr<backend::Backend>> {
    LUNA_ASSIGN_OR_RETURN(auto made, backend::MakeBackend(name, model, backend_options));
    LUNA_RETURN_IF_ERROR(prepare(*made));
    return made;
  };
  const bool choose = options.backend == "auto";
  if (!choose && options.backend != "cuda") return make(options.backend);

  if (const std::string flag = AsksForCpu(options); choose && !flag.empty()) {
    spdlog::info("{} is what the cpu backend alone has; computing on the CPU", flag);
    return make("cpu");
  }
  auto made = make("cuda");
  if (made.ok()) return made;
  const absl::Status& status = made.status();
  if (absl::IsInvalidArgument(status)) return made;
  const std::string why(status.message());
  if (!choose) {
    return absl::Status(status.code(), absl::StrCat("--backend: 'cuda': ", why,
                                                    "; --backend cpu computes on the CPU"));
  }
  // A GPU that is there and does not serve is worth a look.
  const bool none = absl::IsNotFound(status);
  spdlog::log(none ? spdlog::level::info : spdlog::level::warn, "{}; computing on the CPU", why);
  return make("cpu");
}

}  // namespace luna::server
