// A directory of the test's own, and what a test does to its files from outside.
#ifndef LUNA_TESTS_SERVER_STATE_TEMPORARY_DIRECTORY_H_
#define LUNA_TESTS_SERVER_STATE_TEMPORARY_DIRECTORY_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/fakes/temp_dir.h"

namespace luna::state {

class TemporaryDirectory {
 public:
  // Not there yet.
  std::string state() const { return absl::StrCat(root_.path(), "/state"); }
  std::string root() const { return root_.path(); }
  std::string Entry(const std::string& name) const {
    return absl::StrCat(state(), "/", name, ".luna-session");
  }

 private:
  const TempDir root_;
};

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline int ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

inline void SetModified(const std::string& path, absl::Time time) {
  const timespec spec = absl::ToTimespec(time);
  const timespec times[2] = {spec, spec};
  EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0) << path;
}

}  // namespace luna::state

#endif  // LUNA_TESTS_SERVER_STATE_TEMPORARY_DIRECTORY_H_
