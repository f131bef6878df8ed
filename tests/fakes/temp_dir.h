// A directory of one test's own.
#ifndef LUNA_TESTS_FAKES_TEMP_DIR_H_
#define LUNA_TESTS_FAKES_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace luna {

// Has a name that no other process has, since CTest runs tests side by side; gone with its content
// when the object is.
class TempDir {
 public:
  TempDir() {
    std::string pattern = testing::TempDir() + "luna-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file of this directory and gives its path.
  std::string Write(const std::string& name, std::string_view content) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::string path_;
};

}  // namespace luna

#endif  // LUNA_TESTS_FAKES_TEMP_DIR_H_
