// A file's bytes, mapped read-only.
#ifndef LUNA_CORE_MODEL_MAPPED_FILE_H_
#define LUNA_CORE_MODEL_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace luna::model {

// Const after Open and thread-safe. The file must not be shortened while it is mapped.
class MappedFile {
 public:
  // NOT_FOUND or INVALID_ARGUMENT (not a regular file, empty) naming `path`.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const std::byte* data_;
  size_t size_;
};

// The whole content of a text file of at most `max_bytes`. NOT_FOUND if there is none.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes);

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_MAPPED_FILE_H_
