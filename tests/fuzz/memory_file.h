#ifndef STRATA_TESTS_FUZZ_MEMORY_FILE_H_
#define STRATA_TESTS_FUZZ_MEMORY_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/unique_fd.h"
#include "tests/fuzz/check.h"

namespace strata::tests {

// Bytes as a file that readers can open by its path, without a disk. Gone with the object.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    FUZZ_CHECK(fd_.valid());
    while (size > 0) {
      const ssize_t written = write(fd_.get(), data, size);
      FUZZ_CHECK(written > 0);
      data += written;
      size -= static_cast<size_t>(written);
    }
  }

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  UniqueFd fd_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_FUZZ_MEMORY_FILE_H_
