// A file that takes the result of some work, opened before it: a wrong path is told at once.
#ifndef LUNA_CLIENT_OUTPUT_FILE_H_
#define LUNA_CLIENT_OUTPUT_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace luna::client {

class OutputFile {
 public:
  // Makes the file where there is none; what is in it stays until Write. The error names the path
  // and says why.
  static absl::StatusOr<OutputFile> Open(const std::string& path);

  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  // Replaces the content, once, and closes.
  absl::Status Write(std::string_view content);

 private:
  OutputFile(std::string path, int fd);

  const std::string path_;
  int fd_;  // -1: closed
};

}  // namespace luna::client

#endif  // LUNA_CLIENT_OUTPUT_FILE_H_
