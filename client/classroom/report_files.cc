#include "client/classroom/report_files.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace luna::classroom {

absl::StatusOr<ReportFiles> ReportFiles::Open(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("cannot make the directory ", directory));
  }
  const std::filesystem::path path(directory);
  LUNA_ASSIGN_OR_RETURN(auto markdown, client::OutputFile::Open(path / "report.md"));
  LUNA_ASSIGN_OR_RETURN(auto json, client::OutputFile::Open(path / "report.json"));
  LUNA_ASSIGN_OR_RETURN(auto stories, client::OutputFile::Open(path / "stories.txt"));
  return ReportFiles(std::move(markdown), std::move(json), std::move(stories));
}

ReportFiles::ReportFiles(client::OutputFile markdown, client::OutputFile json,
                         client::OutputFile stories)
    : markdown_(std::move(markdown)), json_(std::move(json)), stories_(std::move(stories)) {}

absl::Status ReportFiles::Write(const ClassRecord& record, const Report& report) {
  LUNA_RETURN_IF_ERROR(markdown_.Write(RenderMarkdown(record, report)));
  LUNA_RETURN_IF_ERROR(json_.Write(client::Dump(ToJson(record, report))));
  return stories_.Write(RenderStories(record));
}

}  // namespace luna::classroom
