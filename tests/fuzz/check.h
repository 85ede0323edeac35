#ifndef STRATA_TESTS_FUZZ_CHECK_H_
#define STRATA_TESTS_FUZZ_CHECK_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/unique_fd.h"

// What must hold for every input; else the fuzzer keeps the input as a crash.
#define FUZZ_CHECK(condition)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

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

#endif  // STRATA_TESTS_FUZZ_CHECK_H_
