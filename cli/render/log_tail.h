#ifndef STRATA_CLI_RENDER_LOG_TAIL_H_
#define STRATA_CLI_RENDER_LOG_TAIL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace strata::cli {

// A log that another process writes, read as it grows. Threads: one.
class LogTail {
 public:
  // The file need not be there yet. `prefix` stands before every line.
  LogTail(std::string path, std::string prefix)
      : path_(std::move(path)), prefix_(std::move(prefix)) {}

  // Returns the whole lines that have come since the last call, each with its line break; with
  // `all` also one without, to which it adds one. At most kBytesMax of the file at a time.
  std::string Read(bool all = false);

  static constexpr size_t kBytesMax = 1 << 20;

 private:
  const std::string path_, prefix_;
  uint64_t offset_ = 0;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_LOG_TAIL_H_
