// The files of a report, opened before the class begins: a directory that cannot be written is told
// before anybody has waited for it.
#ifndef LUNA_CLIENT_CLASSROOM_REPORT_FILES_H_
#define LUNA_CLIENT_CLASSROOM_REPORT_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/classroom/report.h"
#include "client/output_file.h"

namespace luna::classroom {

class ReportFiles {
 public:
  // report.md, report.json and stories.txt in `directory`, which is made where it is missing.
  static absl::StatusOr<ReportFiles> Open(const std::string& directory);

  // Once.
  absl::Status Write(const ClassRecord& record, const Report& report);

 private:
  ReportFiles(client::OutputFile markdown, client::OutputFile json, client::OutputFile stories);

  client::OutputFile markdown_;
  client::OutputFile json_;
  client::OutputFile stories_;
};

}  // namespace luna::classroom

#endif  // LUNA_CLIENT_CLASSROOM_REPORT_FILES_H_
