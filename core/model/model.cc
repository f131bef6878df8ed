#include "core/model/model.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/model/loaders.h"

namespace luna::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDummyPrefix = "dummy:";

// The one .gguf file of `directory`.
absl::StatusOr<std::string> FindGguf(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".gguf") found.push_back(entry->path().string());
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": cannot list the directory: ", error.message()));
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat(directory, ": holds neither config.json nor a .gguf file"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(directory, ": holds ", found.size(), " .gguf files; name one of them"));
}

absl::StatusOr<std::unique_ptr<Model>> LoadDirectory(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::path(path) / "config.json", error)) return LoadHfDirectory(path);
  LUNA_ASSIGN_OR_RETURN(const std::string file, FindGguf(path));
  return LoadGgufFile(file);
}

absl::StatusOr<std::unique_ptr<Model>> LoadPath(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file or directory"));
  }
  const fs::path full = fs::canonical(path, error);
  const bool directory = fs::is_directory(status);
  LUNA_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                        directory ? LoadDirectory(path) : LoadGgufFile(path));
  model->config.name = directory ? full.filename().string() : full.stem().string();
  return model;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Model>> LoadModel(std::string_view path) {
  const bool dummy = path.substr(0, kDummyPrefix.size()) == kDummyPrefix;
  LUNA_ASSIGN_OR_RETURN(
      std::unique_ptr<Model> model,
      dummy ? MakeDummyModel(path.substr(kDummyPrefix.size())) : LoadPath(std::string(path)));
  model->digest = ModelDigest(*model);
  return std::shared_ptr<const Model>(std::move(model));
}

}  // namespace luna::model
