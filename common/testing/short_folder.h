#ifndef STRATA_COMMON_TESTING_SHORT_FOLDER_H_
#define STRATA_COMMON_TESTING_SHORT_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "common/require.h"

namespace strata {

// A folder for one test with a path short enough for sockets in it; it is removed with this object.
class ShortFolder {
 public:
  ShortFolder() {
    char path[] = "/tmp/strata-test-XXXXXX";
    STRATA_REQUIRE(mkdtemp(path) != nullptr);
    path_ = path;
  }
  ShortFolder(const ShortFolder&) = delete;
  ~ShortFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace strata

#endif  // STRATA_COMMON_TESTING_SHORT_FOLDER_H_
